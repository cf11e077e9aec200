package known_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/gate/known"
)

// The rows that all vendors have in common.
func common() map[string]row {
	return map[string]row{
		"success":           {200, []string{"Retry-After: 30"}, `[]`, gate.Signal{}},
		"created":           {201, nil, ``, gate.Signal{}},
		"not found":         {404, nil, `{"error":"no"}`, gate.Signal{}},
		"forbidden":         {403, nil, `{"message":"Resource not accessible by integration"}`, gate.Signal{}},
		"server error":      {500, nil, `<html>`, gate.Signal{}},
		"unavailable":       {503, []string{"Retry-After: 20"}, ``, gate.Signal{Limited: true, Pause: 20 * sec}},
		"may have executed": {504, []string{"Path: /a", "Retry-After: 20"}, ``, gate.Signal{Pause: 20 * sec}},
	}
}

func vendors() map[string]vendor {
	day := "Thu, 26 Nov 2026 12:00:00 GMT"
	all := map[string]vendor{
		"OpenAI": {known.OpenAI, map[string]row{
			"success": {
				200,
				[]string{
					"x-ratelimit-limit-requests: 5000", "x-ratelimit-remaining-requests: 4999",
					"x-ratelimit-reset-requests: 12ms", "x-ratelimit-limit-tokens: 160000",
					"x-ratelimit-remaining-tokens: 159976", "x-ratelimit-reset-tokens: 9ms",
				},
				`{}`,
				says(left("requests", 4999, 12*time.Millisecond), left("tokens", 159976, 9*time.Millisecond)),
			},
			"until full": {
				429,
				[]string{
					"x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 6m0s", "x-ratelimit-remaining-tokens: 700",
					"x-ratelimit-reset-tokens: 1h",
				},
				``,
				limited("requests", 6*minute, "", left("requests", 0, 6*minute), left("tokens", 700, time.Hour)),
			},
			"Retry-After goes first": {
				429,
				[]string{"Retry-After: 56", "x-ratelimit-remaining-tokens: 0", "x-ratelimit-reset-tokens: 1m30.5s"},
				`{"error":{"type":"tokens","code":"rate_limit_exceeded"}}`,
				limited("tokens", 56*sec, "", left("tokens", 0, 0)),
			},
			"ms go first":   {429, []string{"retry-after-ms: 1500", "Retry-After: 2"}, ``, limited("", 1500*time.Millisecond, "")},
			"float seconds": {429, []string{"Retry-After: 0.8"}, ``, limited("", 800*time.Millisecond, "")},
			"both used up": {
				429,
				[]string{
					"x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 1s", "x-ratelimit-remaining-tokens: 0",
					"x-ratelimit-reset-tokens: 7s",
				},
				``,
				limited("", 7*sec, "", left("requests", 0, sec), left("tokens", 0, 7*sec)),
			},
			"unreadable reset": {
				429,
				[]string{"x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 1d2h"},
				``,
				limited("", 0, "", left("requests", 0, 0)),
			},
			"negative reset": {
				429,
				[]string{"x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: -70ms"},
				``,
				limited("", 0, "", left("requests", 0, 0)),
			},
			"other reset": {
				429,
				[]string{"x-ratelimit-remaining-requests: 5", "x-ratelimit-reset-requests: 6m0s"},
				``,
				limited("", 0, "", left("requests", 5, 6*minute)),
			},
			"insufficient quota": {
				429,
				[]string{"Retry-After: 56"},
				`{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,` +
					`"code":"insufficient_quota"}}`,
				permanent("billing"),
			},
			"success of the last one": {
				200,
				[]string{"x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 1s"},
				`{"error":{"code":"insufficient_quota"}}`,
				says(left("requests", 0, sec)),
			},
			"quota by its code": {429, nil, `{"error":{"code":"insufficient_quota","type":["a"]}}`, permanent("billing")},
			"not active":        {429, nil, `{"error":{"type":"billing_not_active","code":null}}`, permanent("billing")},
			"overloaded, used up": {
				503,
				[]string{"Retry-After: 20", "x-ratelimit-remaining-requests: 0", "x-ratelimit-reset-requests: 1h"},
				``,
				limited("", 20*sec, "", left("requests", 0, 60*minute)),
			},
			"quota by its type": {429, nil, `{"error":{"code":3,"type":"insufficient_quota"}}`, permanent("billing")},
		}},
		"AzureOpenAI": {known.AzureOpenAI, map[string]row{
			"unknown": {
				200,
				[]string{"x-ratelimit-limit-tokens: -1", "x-ratelimit-remaining-tokens: -1", "x-ratelimit-reset-tokens: 0"},
				``,
				gate.Signal{},
			},
			"unknown, 429": {
				429,
				[]string{"x-ratelimit-limit-tokens: -1", "x-ratelimit-remaining-tokens: -1", "x-ratelimit-reset-tokens: 0"},
				``,
				limited("", 0, ""),
			},
			"seconds": {
				429,
				[]string{"x-ratelimit-remaining-tokens: 0", "x-ratelimit-reset-tokens: 41"},
				``,
				limited("tokens", 41*sec, "", left("tokens", 0, 41*sec)),
			},
			"slice of 10 s": {
				429,
				[]string{"Retry-After: 7", "x-ratelimit-remaining-requests: 300"},
				``,
				limited("", 7*sec, "", left("requests", 300, 0)),
			},
			"x-ms":          {429, []string{"x-ms-retry-after-ms: 1500", "Retry-After: 2"}, ``, limited("", 1500*time.Millisecond, "")},
			"x-ms of a 503": {503, []string{"x-ms-retry-after-ms: 1500"}, ``, limited("", 1500*time.Millisecond, "")},
			"first is 0": {
				429,
				[]string{"retry-after-ms: 0", "x-ms-retry-after-ms: soon", "Retry-After: 5"},
				``,
				limited("", 5*sec, ""),
			},
			"text about a lock": {200, nil, `"RetryableErrorDueToAnotherOperation"`, gate.Signal{}},
			"lock": {
				429,
				[]string{"Retry-After: 5"},
				`{"error":{"code":"RetryableErrorDueToAnotherOperation"}}`,
				gate.Signal{Reason: "lock"},
			},
		}},
		"Anthropic": {known.Anthropic, map[string]row{
			"reset in the past": {
				200,
				[]string{
					"Date: Wed, 25 Nov 2026 12:41:00 GMT", "anthropic-ratelimit-input-tokens-limit: 80000",
					"anthropic-ratelimit-input-tokens-remaining: 80000",
					"anthropic-ratelimit-input-tokens-reset: 2026-11-25T12:40:59Z",
				},
				`{}`,
				says(left("input", 80000, 0)),
			},
			"rate limit": {
				429,
				[]string{
					"retry-after: 30", "anthropic-ratelimit-requests-remaining: 9",
					"anthropic-ratelimit-requests-reset: 2026-11-25T12:05:00Z", "anthropic-ratelimit-output-tokens-remaining: 0",
					"anthropic-ratelimit-output-tokens-reset: 2026-11-25T12:00:40Z",
				},
				`{"type":"error","error":{"type":"rate_limit_error","message":"a"}}`,
				limited("output", 30*sec, "", left("requests", 9, 5*minute), left("output", 0, 0)),
			},
			"reset alone": {
				429,
				[]string{
					"anthropic-ratelimit-requests-remaining: 0", "anthropic-ratelimit-requests-reset: 2026-11-25T12:00:30Z",
				},
				`{"error":{"type":"rate_limit_error"}}`,
				limited("requests", 30*sec, "", left("requests", 0, 30*sec)),
			},
			"no message": {429, nil, `{"error":{"type":"rate_limit_error"}}`, limited("", 0, "")},
			"spend cap": {
				429,
				[]string{"Retry-After: 600"},
				`{"error":{"type":"rate_limit_error","message":"This request would exceed your account's monthly spend limit. Please try again later."}}`,
				permanent("billing"),
			},
			"ms alone": {
				429,
				[]string{"retry-after-ms: 500"},
				`{"error":{"type":"rate_limit_error"}}`,
				limited("", 500*time.Millisecond, ""),
			},
			"used up, no time": {
				429,
				[]string{"anthropic-ratelimit-requests-remaining: 0", "anthropic-ratelimit-requests-reset: 2026-11-25T11:59:59Z"},
				`{"error":{"type":"rate_limit_error"}}`,
				limited("", 0, "", left("requests", 0, 0)),
			},
			"429 of a proxy":          {429, nil, `<html>Too Many Requests</html>`, limited("", 0, "")},
			"Retry-After of 0":        {429, []string{"Retry-After: 0"}, `{"error":{"type":"rate_limit_error"}}`, limited("", 0, "")},
			"overloaded":              {529, nil, `{"type":"error","error":{"type":"overloaded_error"}}`, busy("", "overloaded")},
			"overloaded, Retry-After": {529, []string{"Retry-After: 4"}, ``, limited("", 4*sec, "overloaded")},
			"beyond the longest reset": {
				429,
				[]string{
					"anthropic-ratelimit-requests-remaining: 0", "anthropic-ratelimit-requests-reset: 9999-11-25T12:00:30Z",
					"Retry-After: 1",
				},
				``,
				limited("", sec, "", left("requests", 0, 0)),
			},
		}},
		"GitHub": {known.GitHub, map[string]row{
			"success": {
				200,
				[]string{
					"Path: /users/a", "Content-Type: application/json", "x-ratelimit-remaining: 4999",
					"x-ratelimit-reset: 1795611300", "x-ratelimit-resource: core",
				},
				`{"errors":[{"type":"RATE_LIMITED"}]}`,
				says(left("core", 4999, 55*minute)),
			},
			"primary": {
				403,
				[]string{"x-ratelimit-remaining: 0", "x-ratelimit-reset: 1795608300", "x-ratelimit-resource: search"},
				`{"message":"API rate limit exceeded for user ID 1."}`,
				limited("search", 5*minute, "primary", left("search", 0, 5*minute)),
			},
			"primary, 429": {
				429,
				[]string{"x-ratelimit-remaining: 0", "x-ratelimit-reset: 1795608300"},
				``,
				limited("", 5*minute, "primary", left("", 0, 5*minute)),
			},
			"clock behind": {
				403,
				[]string{"Date: Wed, 25 Nov 2026 12:02:00 GMT", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 1795608300"},
				``,
				limited("", 3*minute, "primary", left("", 0, 3*minute)),
			},
			"reset is past": {
				403,
				[]string{"x-ratelimit-remaining: 0", "x-ratelimit-reset: 1795607000"},
				``,
				limited("", minute, "primary", left("", 0, 0)),
			},
			"last one passed": {
				200,
				[]string{"x-ratelimit-remaining: 0", "x-ratelimit-reset: 1795608300", "x-ratelimit-resource: core"},
				`[]`,
				says(left("core", 0, 5*minute)),
			},
			"secondary, Retry-After": {
				403,
				[]string{
					"Retry-After: 60", "x-ratelimit-remaining: 4000", "x-ratelimit-reset: 1795611300",
					"x-ratelimit-resource: core",
				},
				`{"message":"You have exceeded a secondary rate limit.","documentation_url":"` + githubURL + `"}`,
				limited("secondary", minute, "secondary", left("core", 4000, 55*minute)),
			},
			"secondary": {
				403,
				[]string{"x-ratelimit-remaining: 4000", "x-ratelimit-reset: 1795611300", "x-ratelimit-resource: core"},
				`{"message":"You have exceeded a Secondary Rate Limit"}`,
				limited("secondary", minute, "secondary", left("core", 4000, 55*minute)),
			},
			"secondary, 429": {
				429,
				[]string{"x-ratelimit-remaining: 4000", "x-ratelimit-reset: 1795611300"},
				``,
				limited("secondary", minute, "secondary", left("", 4000, 55*minute)),
			},
			"secondary by its link": {403, nil, `{"documentation_url":"` + githubURL + `"}`, limited("secondary", minute, "secondary")},
			"abuse": {
				403, nil,
				`{"documentation_url":"https://docs.github.com/rest/overview/resources-in-the-rest-api#abuse-rate-limits"}`,
				limited("secondary", minute, "secondary"),
			},
			"secondary, nothing left": {
				403,
				[]string{"x-ratelimit-remaining: 0", "x-ratelimit-reset: 1795608300"},
				`{"documentation_url":"` + githubURL + `"}`,
				limited("secondary", 5*minute, "secondary", left("", 0, 5*minute)),
			},
			"short Retry-After": {403, []string{"Retry-After: 3"}, ``, limited("secondary", 3*sec, "secondary")},
			"forbidden, all remaining": {
				403,
				[]string{"x-ratelimit-remaining: 4000", "x-ratelimit-reset: 1795611300"},
				`{"message":"Must have admin rights to Repository."}`,
				says(left("", 4000, 55*minute)),
			},
			"unavailable": {503, []string{"Retry-After: 20"}, ``, limited("", 20*sec, "")},
			"GraphQL": {
				200,
				[]string{
					"Path: /graphql", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 1795608300",
					"x-ratelimit-resource: graphql",
				},
				`{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded"}]}`,
				limited("graphql", 5*minute, "primary", left("graphql", 0, 5*minute)),
			},
			"GraphQL, more than what is left": {
				200,
				[]string{
					"Path: /graphql", "x-ratelimit-remaining: 4", "x-ratelimit-reset: 1795610400",
					"x-ratelimit-resource: graphql",
				},
				`{"errors":[{"type":"RATE_LIMIT","code":"graphql_rate_limit"}]}`,
				limited("graphql", 40*minute, "primary", left("graphql", 4, 40*minute)),
			},
			"a repository named graphql": {
				200,
				[]string{"Path: /repos/graphql/graphql-js/git/commits/1"},
				`{"message":"Handle the secondary rate limit"}`,
				gate.Signal{},
			},
			"GraphQL without headers": {
				200, nil,
				`{"data":null,"errors":[{"type":"RATE_LIMITED"}]}`,
				limited("graphql", minute, "primary"),
			},
			"GraphQL secondary": {
				200,
				[]string{"Path: /api/graphql", "Retry-After: 90"},
				`{"errors":[{"message":"You have exceeded a secondary rate limit"}]}`,
				limited("secondary", 90*sec, "secondary"),
			},
			"GraphQL secondary, plain": {
				200,
				[]string{"Path: /graphql"},
				`{"message":"You have exceeded a secondary rate limit","documentation_url":"` + githubURL + `"}`,
				limited("secondary", minute, "secondary"),
			},
			"GraphQL with an error": {
				200,
				[]string{"Path: /graphql"},
				`{"data":{"a":"secondary rate limit"},"errors":[{"type":"NOT_FOUND","message":"no"}]}`,
				gate.Signal{},
			},
		}},
		"GitLab": {known.GitLab, map[string]row{
			"sample": {
				429,
				[]string{
					"Date: Tue, 05 Jan 2021 10:59:30 GMT", "RateLimit-Limit: 60", "RateLimit-Observed: 67",
					"RateLimit-Remaining: 0", "RateLimit-Reset: 1609844400", "RateLimit-ResetTime: Tue, 05 Jan 2021 11:00:00 GMT",
					"Retry-After: 30", "RateLimit-Name: throttle_authenticated_web",
				},
				"Retry later\n",
				limited("", 30*sec, "", left("", 0, 30*sec)),
			},
			"reset alone": {
				429,
				[]string{"RateLimit-Remaining: 0", "RateLimit-Reset: 1795608300"},
				``,
				limited("", 5*minute, "", left("", 0, 5*minute)),
			},
			"ResetTime": {
				429,
				[]string{"RateLimit-Remaining: 0", "RateLimit-ResetTime: Wed, 25 Nov 2026 12:00:30 GMT"},
				``,
				limited("", 30*sec, "", left("", 0, 30*sec)),
			},
			"no seconds": {429, []string{"RateLimit-Remaining: 0", "RateLimit-Reset: 30"}, ``, limited("", 0, "", left("", 0, 0))},
			"success":    {200, []string{"RateLimit-Remaining: 40", "RateLimit-Reset: 1795608030"}, ``, says(left("", 40, 30*sec))},
		}},
		"Google": {known.Google, map[string]row{
			"RetryInfo": {
				429,
				[]string{"Content-Type: application/json; charset=UTF-8"},
				`{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{` +
					`"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"57.238747106s"}]}}`,
				limited("", 57238747106, ""),
			},
			"without a type": {
				429, nil,
				`{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"30s"}]}}`,
				limited("", 30*sec, ""),
			},
			"without RetryInfo": {429, nil, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}`, limited("", 0, "")},
			"longest delay": {
				429,
				[]string{"Retry-After: 20"},
				`{"error":{"status":"UNAVAILABLE","details":[{"retryDelay":"1.203608125s"},{"retryDelay":"30s"}]}}`,
				limited("", 30*sec, ""),
			},
			"rate limit": {
				403, nil,
				`{"error":{"code":403,"errors":[{"domain":"usageLimits","reason":"rateLimitExceeded"}]}}`,
				limited("", 0, "rateLimitExceeded"),
			},
			"rate limit of a user": {
				403, nil,
				`{"error":{"errors":[{"reason":"userRateLimitExceeded"}],"details":[{"retryDelay":"5s"}]}}`,
				limited("", 5*sec, "userRateLimitExceeded"),
			},
			"storage": {403, nil, `{"error":{"errors":[{"reason":"storageQuotaExceeded"}]}}`, permanent("storageQuotaExceeded")},
			"permissions": {
				403, nil,
				`{"error":{"errors":[{"reason":"insufficientPermissions"}]}}`,
				permanent("insufficientPermissions"),
			},
			"other reason": {403, nil, `{"error":{"errors":[{"reason":"forbidden"}]}}`, gate.Signal{}},
			"day": {
				429, nil,
				`{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure",` +
					`"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"retryDelay":"9s"}]}}`,
				permanent("daily"),
			},
			"minute": {
				429, nil,
				`{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"violations":[{` +
					`"quotaId":"GenerateRequestsPerMinutePerProjectPerModel"}]},{"retryDelay":"9s"}]}}`,
				limited("", 9*sec, ""),
			},
			"large message": {
				429, nil,
				`{"error":{"status":"RESOURCE_EXHAUSTED","message":"grpc: received message larger than max (5000000 vs. 4194304)"}}`,
				permanent("too large"),
			},
			"large, other status": {400, nil, `{"error":{"status":"ABORTED","message":"message larger than max"}}`, gate.Signal{}},
			"no limit, a delay":   {503, nil, `{"error":{"status":"UNAVAILABLE","details":[{"retryDelay":"9s"}]}}`, gate.Signal{}},
			"success, a reason":   {200, nil, `{"error":{"errors":[{"reason":"rateLimitExceeded"}]}}`, gate.Signal{}},
			"wrong types": {
				429,
				[]string{"Retry-After: 3"},
				`{"error":{"status":8,"errors":{"reason":1},"details":[{"retryDelay":9},{"retryDelay":"7s"},"x"]}}`,
				limited("", 7*sec, ""),
			},
			"Ads": {400, nil, quotaError, limited("developer", 30*sec, "")},
		}},
		"GoogleAds": {known.GoogleAds, map[string]row{
			"developer": {429, nil, quotaError, limited("developer", 30*sec, "")},
			"account":   {400, nil, strings.ReplaceAll(quotaError, "DEVELOPER", "ACCOUNT"), limited("account", 30*sec, "")},
			"stream":    {429, nil, " [" + quotaError + "]", limited("developer", 30*sec, "")},
			"no delay": {
				400, nil,
				`{"error":{"details":[{"errors":[{"errorCode":{"quotaError":"RESOURCE_EXHAUSTED"}}]}]}}`,
				limited("", 0, ""),
			},
			"payments": {
				429, nil,
				` [{"error":{"details":[{"errors":[{"errorCode":{"quotaError":"PAYMENTS_PROFILE_ACTIVATION_RATE_LIMIT_EXCEEDED"}}]}]}}]`,
				permanent("payments"),
			},
			"payments, success": {
				200, nil,
				`{"error":{"details":[{"errors":[{"errorCode":{"quotaError":"PAYMENTS_PROFILE_ACTIVATION_RATE_LIMIT_EXCEEDED"}}]}]}}`,
				gate.Signal{},
			},
			"of Google": {403, nil, `{"error":{"errors":[{"reason":"rateLimitExceeded"}]}}`, limited("", 0, "rateLimitExceeded")},
		}},
		"Jira": {known.Jira, map[string]row{
			"sample": {
				429,
				[]string{
					"Date: Wed, 08 Oct 2025 14:29:13 GMT", "Retry-After: 1847", "X-RateLimit-Limit: 100000",
					"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 2025-10-08T15:00:00Z",
					"RateLimit-Reason: jira-quota-tenant-based",
				},
				``,
				limited("quota", 1847*sec, "quota-tenant-based", left("quota", 0, 1847*sec)),
			},
			"reset alone": {
				429,
				[]string{
					"X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 2026-11-25T12:05Z", "RateLimit-Reason: jira-burst-based",
					`RateLimit: "global-app-quota";r=0;t=3000`,
				},
				``,
				limited("burst", 5*minute, "burst-based", left("burst", 0, 5*minute), left("quota", 0, 3000*sec)),
			},
			"no reset": {
				429,
				[]string{"RateLimit-Reason: jira-burst-based", `RateLimit: "global-app-quota";r=0;t=3000`},
				``,
				limited("burst", 0, "burst-based", left("quota", 0, 3000*sec)),
			},
			"issue": {
				429,
				[]string{"Retry-After: 2", "RateLimit-Reason: jira-per-issue-on-write"},
				``,
				limited("issue", 2*sec, "per-issue-on-write"),
			},
			"global quota": {
				429,
				[]string{"Retry-After: 9", "RateLimit-Reason: jira-quota-global-based"},
				``,
				limited("quota", 9*sec, "quota-global-based"),
			},
			"unknown reason": {429, []string{"Retry-After: 9", "RateLimit-Reason: jira-moon-based"}, ``, limited("", 9*sec, "")},
			"reset, another remains": {
				429,
				[]string{"RateLimit-Reason: jira-quota-tenant-based", "X-RateLimit-Remaining: 399", "X-RateLimit-Reset: 2026-11-25T12:30:00Z"},
				``,
				limited("quota", 30*minute, "quota-tenant-based", left("quota", 0, 30*minute)),
			},
			"policy": {
				429,
				[]string{
					`RateLimit: "p";r=0;t=500, "global-app-quota";r=0;t=50, "tenant-app-quota";r=90;t=600`,
					"RateLimit-Reason: jira-quota-global-based",
				},
				``,
				limited("quota", 50*sec, "quota-global-based", left("quota", 0, 50*sec)),
			},
			"beta": {
				429,
				[]string{`RateLimit: "Beta-global-app-quota";r=0;t=50`, `Beta-RateLimit: "global-app-quota";r=0;t=50`},
				``,
				limited("", 0, ""),
			},
			"success": {
				200,
				[]string{
					"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 9", "X-RateLimit-NearLimit: true",
					`RateLimit: "global-app-quota";r=11000;t=600`,
				},
				``,
				says(left("burst", 9, 0), left("quota", 11000, 10*minute)),
			},
			"several policies": {
				429,
				[]string{`RateLimit: "a-quota";r=90;t=600, "b-quota";r=0;t=50, "c-quota";r=0;t=20`},
				``,
				limited("", 50*sec, "", left("quota", 0, 50*sec)),
			},
			"policy with a rest": {
				429,
				[]string{`RateLimit: "a-quota";r=3;t=600`},
				``,
				limited("", 0, "", left("quota", 3, 10*minute)),
			},
			"both headers": {
				429,
				[]string{
					"RateLimit-Reason: jira-quota-global-based", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 2026-11-25T12:01:00+0000",
					`RateLimit: "a-quota";r=0;t=50`,
				},
				``,
				limited("quota", minute, "quota-global-based", left("quota", 0, minute)),
			},
			"success, a reason": {200, []string{"RateLimit-Reason: jira-burst-based"}, ``, gate.Signal{}},
			"low usage":         {200, []string{`RateLimit: "global-app-quota";t=600`}, ``, gate.Signal{}},
			"cached":            {200, []string{"Age: 3", `RateLimit: "global-app-quota";r=0;t=600`}, ``, gate.Signal{}},
			"unreadable list":   {429, []string{`RateLimit: "global-app-quota`, "Retry-After: 3"}, ``, limited("", 3*sec, "")},
			"no strings": {
				200,
				[]string{`RateLimit: (1 2);r=0;t=5, 3;r=0;t=5, quota;r=0;t=5, "a-quota";r=soon;t=5, "b-quota";r=3;t="x"`},
				``,
				says(left("quota", 3, 0)),
			},
		}},
		"Shopify": {known.Shopify, map[string]row{
			"REST":            {200, []string{"X-Shopify-Shop-Api-Call-Limit: 32/40"}, `{"shop":{}}`, says(left("", 8, 0))},
			"REST full":       {200, []string{"X-Shopify-Shop-Api-Call-Limit: 40/40"}, ``, says(left("", 0, 0))},
			"REST of nothing": {200, []string{"X-Shopify-Shop-Api-Call-Limit: 3/0"}, ``, gate.Signal{}},
			"REST refused": {
				429,
				[]string{"Retry-After: 2.0", "X-Shopify-Shop-Api-Call-Limit: 40/40"},
				`{"errors":"Exceeded 2 calls per second for api client."}`,
				limited("", 2*sec, "", left("", 0, 0)),
			},
			"short Retry-After": {429, []string{"Retry-After: 0.8"}, ``, limited("", 800*time.Millisecond, "")},
			"locked":            {423, nil, ``, permanent("locked")},
			"security":          {430, nil, ``, gate.Signal{}},
			"GraphQL": {
				200,
				[]string{"Path: /admin/api/2026-10/graphql.json"},
				`{"data":{"a":1},"extensions":{"cost":{"requestedQueryCost":101,"actualQueryCost":46,"throttleStatus":{` +
					`"maximumAvailable":1000.0,"currentlyAvailable":954,"restoreRate":50.0}}}}`,
				says(left("", 954, 0)),
			},
			"GraphQL near the end": {
				200,
				[]string{"Path: /graphql.json"},
				`{"data":{},"extensions":{"cost":{"requestedQueryCost":200,"actualQueryCost":10,"throttleStatus":{` +
					`"maximumAvailable":1000,"currentlyAvailable":50,"restoreRate":100}}}}`,
				says(left("", 50, 1500*time.Millisecond)),
			},
			"GraphQL throttled": {
				200,
				[]string{"Path: /graphql.json", "Content-Type: application/json"},
				`{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{` +
					`"requestedQueryCost":200,"actualQueryCost":null,"throttleStatus":{"maximumAvailable":1000,` +
					`"currentlyAvailable":50,"restoreRate":100}}}}`,
				limited("", 1500*time.Millisecond, "cost", left("", 50, 1500*time.Millisecond)),
			},
			"GraphQL without an error": {
				200, nil,
				`{"data":null,"extensions":{"cost":{"requestedQueryCost":200,"actualQueryCost":null,"throttleStatus":{` +
					`"maximumAvailable":1000,"currentlyAvailable":50,"restoreRate":100}}}}`,
				limited("", 1500*time.Millisecond, "cost", left("", 50, 1500*time.Millisecond)),
			},
			"GraphQL above the bucket": {
				200, nil,
				`{"errors":[{"message":"Throttled"}],"extensions":{"cost":{"requestedQueryCost":1200,"actualQueryCost":null,` +
					`"throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":1000,"restoreRate":50}}}}`,
				permanent("cost"),
			},
			"checkout":            {200, []string{"Path: /api/a/graphql.json"}, `{"errors":[{"message":"Throttled"}]}`, limited("", 0, "")},
			"GraphQL, other text": {200, nil, `{"errors":[{"extensions":{"code":"THROTTLED"}}]}`, limited("", 0, "")},
			"GraphQL, two errors": {
				200, nil,
				`{"errors":[{"message":"Throttled"},{"message":"no"}]}`,
				limited("", 0, ""),
			},
			"GraphQL, some data": {200, nil, cost(`{}`, 1200, `null`, 0), says(left("", 0, 12*sec))},
			"GraphQL, charged":   {200, nil, cost(`null`, 200, `46`, 0), says(left("", 0, 2*sec))},
			"GraphQL, enough":    {200, nil, cost(`null`, 200, `null`, 300), says(left("", 300, 0))},
			"GraphQL error":      {200, nil, `{"errors":[{"message":"Field 'a' doesn't exist"}]}`, gate.Signal{}},
			"no restoring": {
				200, nil,
				`{"errors":[{"message":"throttled"}],"extensions":{"cost":{"requestedQueryCost":200,"throttleStatus":{` +
					`"maximumAvailable":1000,"restoreRate":0}}}}`,
				limited("", 0, ""),
			},
			"path of REST": {200, []string{"Path: /admin/products.json"}, `{"errors":[{"message":"Throttled"}]}`, gate.Signal{}},
			"not JSON":     {200, []string{"Content-Type: text/csv"}, `{"errors":[{"message":"Throttled"}]}`, gate.Signal{}},
			"not this large": {
				200, nil,
				`{"data":"` + strings.Repeat("x", 64<<10) + `","errors":[{"message":"Throttled"}]}`,
				gate.Signal{},
			},
		}},
		"Slack": {known.Slack, map[string]row{
			"Retry-After":            {429, []string{"Retry-After: 30"}, `{"ok":false,"error":"ratelimited"}`, limited("", 30*sec, "")},
			"unreadable Retry-After": {429, []string{"Retry-After: soon"}, ``, limited("", 0, "")},
			"date":                   {429, []string{"Retry-After: Wed, 25 Nov 2026 12:00:30 GMT"}, ``, limited("", 31*sec, "")},
			"Google's JSON":          {400, []string{"Content-Type: application/json"}, quotaError, gate.Signal{}},
		}},
		"Stripe": {known.Stripe, map[string]row{
			"global rate": {
				429,
				[]string{"Stripe-Rate-Limited-Reason: global-rate"},
				`{"error":{"code":"rate_limit"}}`,
				limited("global", 0, "global-rate"),
			},
			"endpoint rate": {429, []string{"Stripe-Rate-Limited-Reason: endpoint-rate"}, ``, limited("endpoint", 0, "endpoint-rate")},
			"object": {
				429,
				[]string{"Stripe-Rate-Limited-Reason: resource-specific"},
				``,
				limited("object", 0, "resource-specific"),
			},
			"global concurrency": {
				429,
				[]string{"Stripe-Rate-Limited-Reason: global-concurrency"},
				``,
				busy("global", "global-concurrency"),
			},
			"endpoint concurrency": {
				429,
				[]string{"Stripe-Rate-Limited-Reason: endpoint-concurrency"},
				``,
				busy("endpoint", "endpoint-concurrency"),
			},
			"other reason": {429, []string{"Stripe-Rate-Limited-Reason: moon"}, ``, limited("", 0, "")},
			"no reason":    {429, nil, `{"error":{"code":"rate_limit"}}`, limited("", 0, "")},
			"lock": {
				429, nil,
				`{"error":{"code":"lock_timeout","message":"This object cannot be accessed right now"}}`,
				gate.Signal{Reason: "lock"},
			},
			"rate beside a lock": {
				429,
				[]string{"Stripe-Rate-Limited-Reason: global-rate"},
				`{"error":{"code":"lock_timeout"}}`,
				limited("global", 0, "global-rate"),
			},
			"conflict": {409, nil, `{"error":{"code":"lock_timeout"}}`, gate.Signal{}},
		}},
		"Meta": {known.Meta, map[string]row{
			"app": {
				400,
				[]string{`X-App-Usage: {"call_count":118,"total_time":25,"total_cputime":25}`},
				`{"error":{"code":4,"is_transient":true}}`,
				limited("app", 0, "code 4", left("app", 0, 0)),
			},
			"user": {
				400,
				[]string{`X-Ad-Account-Usage: {"acc_id_util_pct":100,"reset_time_duration":120}`},
				`{"error":{"code":17,"error_subcode":2446079}}`,
				limited("account", 2*minute, "code 17", left("account", 0, 2*minute)),
			},
			"mutations": {400, nil, `{"error":{"code":613,"error_subcode":5044001}}`, limited("account", 0, "code 613")},
			"page": {
				400,
				[]string{`X-Business-Use-Case-Usage: {"1":[{"type":"pages","estimated_time_to_regain_access":5}]}`},
				`{"error":{"code":32}}`,
				limited("", 5*minute, "code 32", left("business", 0, 5*minute)),
			},
			"business": {
				400,
				[]string{
					`X-Business-Use-Case-Usage: {"1":[{"type":"ads_insights","call_count":100,"estimated_time_to_regain_access":5},` +
						`{"type":"ads_management","call_count":3,"estimated_time_to_regain_access":0}]}`,
				},
				`{"error":{"code":80004}}`,
				limited("business", 5*minute, "code 80004", left("business", 0, 5*minute)),
			},
			"of another": {
				400,
				[]string{`X-Business-Use-Case-Usage: {"1":[{"estimated_time_to_regain_access":5}]}`},
				`{"error":{"code":4}}`,
				limited("app", 0, "code 4", left("business", 0, 5*minute)),
			},
			"no limit":     {400, nil, `{"error":{"code":1,"message":"Please reduce the amount of data"}}`, gate.Signal{}},
			"parameter":    {400, nil, `{"error":{"code":100}}`, gate.Signal{}},
			"WhatsApp":     {400, nil, `{"error":{"code":80007}}`, limited("business", 0, "code 80007")},
			"throughput":   {400, nil, `{"error":{"code":130429}}`, limited("", 0, "code 130429")},
			"user of many": {400, nil, `{"error":{"code":17}}`, limited("", 0, "code 17")},
			"time of another meter": {
				200,
				[]string{
					`X-Ad-Account-Usage: {"acc_id_util_pct":9.5,"reset_time_duration":120}`,
					`X-FB-Ads-Insights-Throttle: {"acc_id_util_pct":100}`,
				},
				``,
				says(left("account", 0, 0)),
			},
			"success, a code": {200, nil, `{"error":{"code":4}}`, gate.Signal{}},
			"no meters":       {200, nil, `{"data":[]}`, gate.Signal{}},
			"low": {
				200,
				[]string{
					`X-App-Usage: {"call_count":28,"total_time":25,"total_cputime":25}`,
					`X-Ad-Account-Usage: {"acc_id_util_pct":9.5,"reset_time_duration":120}`,
				},
				``,
				gate.Signal{},
			},
			"over": {200, []string{`X-App-Usage: {"call_count":5,"total_time":25,"total_cputime":118.5}`}, ``, says(left("app", 0, 0))},
			"insights": {
				200,
				[]string{`X-FB-Ads-Insights-Throttle: {"app_id_util_pct":100,"acc_id_util_pct":10}`},
				``,
				says(left("app", 0, 0)),
			},
			"full": {
				200,
				[]string{`X-Business-Use-Case-Usage: {"1":[{"call_count":100,"estimated_time_to_regain_access":0}]}`},
				``,
				says(left("business", 0, 0)),
			},
			"regain": {
				200,
				[]string{
					`X-Business-Use-Case-Usage: {"1":[{"type":"a","call_count":99,"estimated_time_to_regain_access":5}],` +
						`"2":[{"type":"b","estimated_time_to_regain_access":7.5}]}`,
				},
				``,
				gate.Signal{Limit: "business", Pause: 450 * sec, Quotas: quotas{left("business", 0, 450*sec)}},
			},
			"longest of a business": {
				200,
				[]string{
					`X-Ad-Account-Usage: {"acc_id_util_pct":100,"reset_time_duration":60}`,
					`X-Business-Use-Case-Usage: {"1":[{"estimated_time_to_regain_access":5}]}`,
				},
				``,
				gate.Signal{Limit: "business", Pause: 5 * minute, Quotas: quotas{
					left("account", 0, minute),
					left("business", 0, 5*minute),
				}},
			},
			"longest": {
				200,
				[]string{
					`X-Ad-Account-Usage: {"acc_id_util_pct":100,"reset_time_duration":600}`,
					`X-Business-Use-Case-Usage: {"1":[{"estimated_time_to_regain_access":5}]}`,
				},
				``,
				gate.Signal{
					Limit: "account", Pause: 10 * minute,
					Quotas: quotas{left("account", 0, 10*minute), left("business", 0, 5*minute)},
				},
			},
			"huge": {
				200,
				[]string{`X-Business-Use-Case-Usage: {"1":[{"estimated_time_to_regain_access":1e308}]}`},
				``,
				gate.Signal{Limit: "business", Pause: math.MaxInt64, Quotas: quotas{left("business", 0, math.MaxInt64)}},
			},
			"bad meters": {
				200,
				[]string{
					`X-App-Usage: {"call_count":`, `X-Ad-Account-Usage: [3]`,
					`X-Business-Use-Case-Usage: {"1":{"call_count":200},"2":[{"call_count":"full"},4]}`,
				},
				``,
				gate.Signal{},
			},
			"array":        {400, nil, `[{"code":4}]`, gate.Signal{}},
			"code is text": {400, nil, `{"error":{"code":"4"}}`, gate.Signal{}},
		}},
		"Discord": {known.Discord, map[string]row{
			"success": {
				200,
				[]string{
					"Path: /api/v10/channels/81/messages", "X-RateLimit-Limit: 5", "X-RateLimit-Remaining: 4",
					"X-RateLimit-Reset: 1795608001.5", "X-RateLimit-Reset-After: 1.5", "X-RateLimit-Bucket: abcd1234",
				},
				``,
				says(gate.Quota{Limit: "route", Remaining: 4, Reset: 1500 * time.Millisecond, Bucket: "abcd1234/channels/81"}),
			},
			"bucket alone": {
				204,
				[]string{"Path: /api/v10/users/@me", "X-RateLimit-Bucket: abcd1234"},
				``,
				says(gate.Quota{Limit: "route", Bucket: "abcd1234"}),
			},
			"webhook": {
				204,
				[]string{"Path: /api/webhooks/7/secret", "X-RateLimit-Bucket: b"},
				``,
				says(gate.Quota{Limit: "route", Bucket: "b/webhooks/7"}),
			},
			"end of path": {
				204,
				[]string{"Path: /api/guilds", "X-RateLimit-Bucket: b"},
				``,
				says(gate.Quota{Limit: "route", Bucket: "b"}),
			},
			"nothing left": {200, []string{"X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 1"}, ``, says(left("route", 0, sec))},
			"shared": {
				429,
				[]string{
					"Retry-After: 1337", "X-RateLimit-Remaining: 9", "X-RateLimit-Reset: 1795608064.57",
					"X-RateLimit-Reset-After: 64.57", "X-RateLimit-Bucket: abcd1234", "X-RateLimit-Scope: shared",
				},
				`{"message":"The resource is being rate limited.","retry_after":1336.57,"global":false}`,
				limited(
					"route", 1337*sec, "shared",
					gate.Quota{Limit: "route", Remaining: 9, Reset: 64570 * time.Millisecond, Bucket: "abcd1234"},
				),
			},
			"user": {
				429,
				[]string{
					"Retry-After: 65", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 64.57", "X-RateLimit-Scope: user",
				},
				`{"retry_after":64.57,"global":false}`,
				limited("route", 65*sec, "", left("route", 0, 64570*time.Millisecond)),
			},
			"body alone": {
				429,
				[]string{"X-RateLimit-Scope: user"},
				`{"retry_after":64.57}`,
				limited("route", 64570*time.Millisecond, ""),
			},
			"reset alone": {
				429,
				[]string{"X-RateLimit-Bucket: b", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 0.3"},
				``,
				limited("route", 300*time.Millisecond, "", gate.Quota{Limit: "route", Reset: 300 * time.Millisecond, Bucket: "b"}),
			},
			"global": {
				429,
				[]string{"Retry-After: 1", "X-RateLimit-Global: true", "X-RateLimit-Scope: global"},
				`{"retry_after":0.3,"global":true}`,
				limited("global", sec, "global"),
			},
			"global by body": {429, nil, `{"retry_after":0.3,"global":true}`, limited("global", 300*time.Millisecond, "global")},
			"global beside route": {
				429,
				[]string{"X-RateLimit-Global: true", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset-After: 60"},
				``,
				limited("global", 0, "global", left("route", 0, minute)),
			},
			"banned address": {429, []string{"Retry-After: 3600"}, `<html>`, limited("", time.Hour, "")},
			"unauthorized":   {401, nil, `{"message":"401: Unauthorized"}`, gate.Signal{}},
			"huge":           {429, nil, `{"retry_after":1e300}`, limited("", math.MaxInt64, "")},
		}},
		"Salesforce": {known.Salesforce, map[string]row{
			"success": {
				200,
				[]string{"Sforce-Limit-Info: api-usage=18/5000; per-app-api-usage=17/250(appName=x)"},
				``,
				says(left("daily", 4982, 0), left("app", 233, 0)),
			},
			"of nothing":  {200, []string{"Sforce-Limit-Info: api-usage=18/0; per-app-api-usage=all"}, ``, gate.Signal{}},
			"other field": {429, []string{"Sforce-Limit-Info: Retry-After=5"}, ``, limited("", 0, "")},
			"daily": {
				403,
				[]string{"Sforce-Limit-Info: api-usage=5000/5000"},
				`[{"message":"TotalRequests Limit exceeded.","errorCode":"REQUEST_LIMIT_EXCEEDED"}]`,
				limited("daily", 0, "daily", left("daily", 0, 0)),
			},
			"concurrency": {
				403, nil,
				`[{"message":"ConcurrentRequests (Concurrent API Requests) Limit exceeded.","errorCode":"REQUEST_LIMIT_EXCEEDED"}]`,
				busy("", "concurrency"),
			},
			"no access": {403, nil, `[{"message":"x","errorCode":"INSUFFICIENT_ACCESS"}]`, gate.Signal{}},
			"object":    {403, nil, `{"errorCode":"REQUEST_LIMIT_EXCEEDED"}`, gate.Signal{}},
			"marketing": {
				429,
				[]string{"Retry-After: 5"},
				`{"message":"Rate limit exceeded","errorcode":50100,"retryAfter":5}`,
				limited("", 5*sec, ""),
			},
		}},
		"Responsys": {known.Responsys, map[string]row{
			"method": {
				400,
				[]string{"Date: Wed, 25 Nov 2026 12:00:20 GMT"},
				`{"type":"","title":"API limit exceeded","errorCode":"API_LIMIT_EXCEEDED","detail":"","errorDetails":[]}`,
				limited("method", 40*sec, "minute"),
			},
			"start of a minute": {429, nil, `{"errorCode":"API_LIMIT_EXCEEDED"}`, limited("method", minute, "minute")},
			"unreadable Date":   {400, []string{"Date: today"}, `{"errorCode":"API_LIMIT_EXCEEDED"}`, limited("method", minute, "minute")},
			"longer Retry-After": {
				429,
				[]string{"Retry-After: " + day},
				`{"errorCode":"API_LIMIT_EXCEEDED"}`,
				limited("method", 24*time.Hour+sec, "minute"),
			},
			"capacity": {
				400, nil,
				`{"errorCode":"INTERNAL_CAPACITY_LIMIT_EXCEEDED"}`,
				limited("capacity", 10*minute, "capacity"),
			},
			"blocked":                {400, nil, `{"errorCode":"API_BLOCKED"}`, permanent("blocked")},
			"too many in one call":   {400, nil, `{"errorCode":"RECIPIENT_LIMIT_EXCEEDED"}`, gate.Signal{}},
			"not read after success": {200, nil, `{"errorCode":"API_LIMIT_EXCEEDED"}`, gate.Signal{}},
		}},
	}
	for _, code := range []int{80000, 80001, 80002, 80003, 80004, 80005, 80006, 80008, 80009, 80014} {
		text := strconv.Itoa(code)
		all["Meta"].rows[text] = row{400, nil, `{"error":{"code":` + text + `}}`, limited("business", 0, "code "+text)}
	}
	return all
}

// cost is an answer of GraphQL by Shopify, from a bucket of 1,000 points of which 100 return in a second.
func cost(data string, need int, charged string, available int) string {
	return fmt.Sprintf(`{"data":%s,"extensions":{"cost":{"requestedQueryCost":%d,"actualQueryCost":%s,"throttleStatus":{`+
		`"maximumAvailable":1000,"currentlyAvailable":%d,"restoreRate":100}}}}`, data, need, charged, available)
}
