package known_test

import (
	"errors"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/gate"
)

// A row is a response and what it says. Its Date is 2026-11-25T12:00:00Z, 1795608000, unless a field says otherwise.
type row struct {
	status int
	fields []string // "Name: value"; a Path is that of the request
	body   string
	want   gate.Signal
}

func (r row) response() *http.Response {
	h := http.Header{"Date": {"Wed, 25 Nov 2026 12:00:00 GMT"}}
	resp := &http.Response{StatusCode: r.status, Header: h, Body: io.NopCloser(strings.NewReader(r.body))}
	for _, field := range r.fields {
		switch name, value, _ := strings.Cut(field, ": "); name {
		case "Path":
			resp.Request = &http.Request{Method: http.MethodPost, URL: &url.URL{Path: value}}
		case "Date":
			h.Set(name, value)
		default:
			h.Add(name, value)
		}
	}
	return resp
}

type (
	vendor struct {
		classify func(*http.Response, error) gate.Signal
		rows     map[string]row
	}
	quotas = []gate.Quota
)

const (
	sec, minute = time.Second, time.Minute

	githubURL  = "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits"
	quotaError = `{"error":{"details":[{"errors":[{"errorCode":{"quotaError":"RESOURCE_TEMPORARILY_EXHAUSTED"},` +
		`"details":{"quotaErrorDetails":{"rateScope":"DEVELOPER","rateName":"ops","retryDelay":"30s"}}}]}]}}`
)

// What a row wants: limited, busy and permanent are refusals, and says is none.
func limited(limit string, pause time.Duration, reason string, quotas ...gate.Quota) gate.Signal {
	return gate.Signal{Limited: true, Limit: limit, Pause: pause, Reason: reason, Quotas: quotas}
}

func busy(limit, reason string) gate.Signal {
	return gate.Signal{Busy: true, Limit: limit, Reason: reason}
}

func permanent(reason string) gate.Signal {
	return gate.Signal{Permanent: true, Reason: reason}
}

func says(quotas ...gate.Quota) gate.Signal { return gate.Signal{Quotas: quotas} }

func left(limit string, remaining int64, reset time.Duration) gate.Quota {
	return gate.Quota{Limit: limit, Remaining: remaining, Reset: reset}
}

func TestKnown(t *testing.T) {
	t.Parallel()
	for name, v := range vendors() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := func(name string, r row) {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					resp := r.response()
					require.Equal(t, r.want, v.classify(resp, nil))
					body, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.Equal(t, r.body, string(body), "the caller can read it")
					require.Equal(t, r.response().Header, resp.Header)
				})
			}
			for name, r := range v.rows {
				check(name, r)
			}
			for name, r := range common() {
				if _, own := v.rows[name]; !own {
					check(name, r)
				}
			}
		})
	}
}

// What does not depend on the vendor.
func TestKnownOfAll(t *testing.T) {
	t.Parallel()
	for name, v := range vendors() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, fields := range [][]string{{"Retry-After: 9223372037"}, {"Retry-After: 99999999999999999999.5"}} {
				s := v.classify(row{status: 429, fields: fields}.response(), nil)
				require.True(t, s.Limited)
				require.Equal(t, time.Duration(math.MaxInt64), s.Pause, fields)
			}
			for _, value := range []string{"0", "-5", "NaN", "Wed, 25 Nov 2026 11:00:00 GMT"} {
				s := v.classify(row{status: 429, fields: []string{"Retry-After: " + value}}.response(), nil)
				require.True(t, s.Limited, value)
				require.Contains(t, []time.Duration{0, time.Minute}, s.Pause, "%s: nothing that the vendor has said", value)
			}
			require.Equal(t, gate.Signal{}, v.classify(nil, nil))
			require.Equal(t, gate.Signal{Limited: true, Pause: time.Minute}, v.classify(nil, refusal{}))
			require.Equal(t, gate.Signal{}, v.classify(nil, errors.New("no route to host")))
			require.Equal(t, gate.Signal{}, v.classify(nil, core.ErrRejected))
			require.True(t, v.classify(&http.Response{StatusCode: http.StatusTooManyRequests}, nil).Limited, "without header and body")
			require.Equal(t, gate.Signal{}, v.classify(&http.Response{StatusCode: http.StatusOK, Request: &http.Request{}}, nil))
			for status := 200; status < 600; status++ {
				s := v.classify(row{status: status, body: "\x00[}"}.response(), nil)
				require.Zero(t, s.Quotas, status)
				require.Equal(t, status == 429, s.Limited, status)
			}
		})
	}
}

type refusal struct{}

func (refusal) Error() string             { return "refused" }
func (refusal) RetryAfter() time.Duration { return time.Minute }

// What a gate holds after one answer.
func TestKnownHolds(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		limits string
		pause  time.Duration
	}{
		"GitHub/secondary, Retry-After":    {"secondary", minute},
		"GitHub/secondary":                 {"secondary", minute},
		"GitHub/forbidden":                 {},
		"Discord/shared":                   {"route", 1337 * sec},
		"Anthropic/reset in the past":      {},
		"AzureOpenAI/unknown":              {},
		"Stripe/lock":                      {},
		"OpenAI/insufficient quota":        {},
		"OpenAI/Retry-After goes first":    {"tokens", 56 * sec},
		"Meta/no meters":                   {},
		"Meta/regain":                      {"business", 450 * sec},
		"Shopify/GraphQL without an error": {"business tokens route secondary", 1500 * time.Millisecond}, // names none
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				vendor, name, _ := strings.Cut(name, "/")
				v := vendors()[vendor]
				r, own := v.rows[name]
				if !own {
					r = common()[name]
				}
				g := core.Must(gate.New(gate.Config{
					Limits:   []gate.Limit{{Name: "secondary"}, {Name: "route"}, {Name: "business"}, {Name: "tokens"}},
					Classify: v.classify, MaxAttempts: 1,
				}))
				ask := &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "https", Host: "a.example", Path: "/graphql"}}
				resp, err := g.Transport(roundTrip(func(ask *http.Request) (*http.Response, error) {
					resp := r.response()
					resp.Request = ask
					return resp, nil
				})).RoundTrip(ask)
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, r.body, string(body))
				limits := map[string]bool{} // a learned bucket is one more key of its limit
				for _, held := range g.Holds() {
					limits[held.Limit] = true
					require.InDelta(t, want.pause, time.Until(held.Until), float64(sec))
				}
				require.ElementsMatch(t, strings.Fields(want.limits), slices.Collect(maps.Keys(limits)))
			})
		})
	}
}
