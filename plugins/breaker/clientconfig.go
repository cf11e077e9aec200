package breaker

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/header"
	"github.com/gresil/gresil/internal/validate"
)

// Defaults of a [ClientConfig], where they are not those of core/breaker.
const (
	defaultTrials        = 5
	defaultMaxRetryAfter = 10 * time.Minute

	maxTrials = 1 << 10 // that of core/breaker
)

// ClientConfig configures a [Client]. The zero value is ready to use: a breaker
// for each host, which opens for half a minute or more when half of the last 100
// requests failed, and then makes 5 trials.
//
// A ClientConfig is a plain value: copy it to derive another one from it.
type ClientConfig struct {
	// Name names the plugin, also in its errors. If empty, it is "default".
	Name string
	// Registry is where the plugin is found under the kind "breaker" and its name. If
	// nil, it is in none.
	Registry *core.Registry

	// Key returns the key of a request. Requests with the same key share a breaker. If
	// nil, it is [client.Host]. It is in the text of an [*OpenError], so it must not be a secret.
	Key func(req *http.Request) string
	// MaxKeys is the number of breakers at most. If zero, it is 1024. It must not be
	// negative. See [Group] for the keys beyond it.
	MaxKeys int

	// FailureRate is the share of failed requests in the window, above 0 and at most 1,
	// at which a breaker opens. If zero, it is 0.5, or Failures decides if that is set.
	FailureRate float64
	// Failures is the number of failed requests in the window at which a breaker opens,
	// as an alternative to FailureRate, whatever the number of requests. If zero,
	// FailureRate decides. It must not be negative or above Window, and must be zero if
	// FailureRate is set. With Failures and Window both n, n failures in a row open it.
	Failures int
	// SlowCall is the time, until the headers are there, or with JudgeBody until its body
	// has ended, above which a request is slow, whatever its outcome. It includes the
	// upload of the request body, also where the transport waits for the caller's reader:
	// give slow uploads a breaker of their own, by Key, or none, by [Client.Override]. If
	// zero, no request is slow. It must not be negative.
	SlowCall time.Duration
	// SlowRate is the share of slow requests in the window, above 0 and at most 1, at
	// which a breaker opens too. If zero, it is 1. It must be zero without a SlowCall.
	SlowRate float64
	// Window is the number of requests in the window. If zero, it is 100. It must be
	// zero if WindowTime is set.
	Window int
	// WindowTime is the length of a window that holds the requests within this time,
	// instead of a number of them. If not zero, it is at least a millisecond.
	WindowTime time.Duration
	// MinCalls is the number of requests in the window required before the rates are
	// evaluated; Failures does not need it. If zero, it is Window, or 100 if WindowTime
	// is set. It must be zero if Failures is set without a SlowCall.
	MinCalls int

	// OpenDelay returns how long a breaker stays open. It must be fast and pure. If nil,
	// it is 30 seconds, doubled each time that the trials fail, at most 10 minutes, spread
	// by a fifth.
	OpenDelay backoff.Strategy
	// MaxRetryAfter is the longest time that a response can ask for ([client.RetryAfter]): a
	// breaker that it opens stays open at least
	// that long. If zero, it is 10 minutes. If negative, that is
	// not read, so that TripOnRetryAfter opens nothing.
	MaxRetryAfter time.Duration
	// Trials is the number of requests that are admitted while half-open and decide, by
	// TrialRule. If zero, it is 5.
	Trials int
	// TrialRule decides from the results of the trials whether the breaker closes. The
	// zero value is [ByRate].
	TrialRule TrialRule
	// TrialTimeout is how long a trial keeps its slot. If zero, it is a minute. If
	// negative, there is no limit.
	TrialTimeout time.Duration
	// MaxHalfOpen is how long a breaker stays half-open at most, before it opens
	// again. If zero, there is no limit. It must not be negative.
	MaxHalfOpen time.Duration
	// JudgeWithHistory applies the rates to the window while half-open, trials included,
	// and keeps the window when the breaker closes. It must be false with Failures and
	// [AllMustSucceed].
	JudgeWithHistory bool
	// Initial is the state that a breaker begins in. The zero value is Closed.
	Initial State

	// Classify returns the outcome of an exchange. If nil, it is [client.Classify]. ctx is
	// that of the request, and err that of the transport as [client.Explain] returns it.
	// It must not use the body. It is not called if the transport panics, nor for a
	// request that an inner plugin rejected, which is [core.Ignored]: no call was made.
	Classify func(ctx context.Context, resp *http.Response, err error) core.Outcome
	// PanicsFail counts a panic of the transport as a failure, unless its value is
	// [http.ErrAbortHandler]. If false, it is not counted. The panic goes on in both
	// cases.
	PanicsFail bool
	// JudgeBody judges an exchange that is a success by its headers again when its body
	// has ended: if a read fails, Classify is called with the error and no response. If
	// the body is read to its end, or closed before, the exchange is a success. It is counted once, at that time; until then a trial
	// keeps its slot, at most for TrialTimeout. Other outcomes, upgraded connections
	// (101) and responses without a body are judged by the headers, as all are without
	// JudgeBody.
	JudgeBody bool
	// Trip opens the breaker by a single response, for as long as it returns, whatever
	// the rates: the exchange counts as a failure. If the result is 0 or less, Classify
	// decides. asked is the pause that it asks for, at most MaxRetryAfter, and 0 if there
	// is none or it is not read; the breaker is open at least that long. If the
	// exchange opens it by its rates too, and while half-open, it is open at least as
	// long as OpenDelay returns. [TripOnRetryAfter] opens it by every Retry-After. Trip
	// is not called without a response, nor for the response of a rejection by an inner
	// plugin. It must not use the body. If nil, no single response opens a breaker.
	Trip func(resp *http.Response, asked time.Duration) time.Duration
	// SyntheticResponse answers a rejected request with a response instead of an
	// [*OpenError]: 503 with Retry-After, made by [client.Reject], so that outer plugins
	// recognize the rejection.
	SyntheticResponse bool
	// OnStateChange is called after each change of the state, in order, by the goroutine that caused it. It can use the breaker,
	// and can be nil.
	OnStateChange func(ctx context.Context, c StateChange)
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c ClientConfig) Validate() error {
	inner := c.core()
	inner.Trials = 0 // core/breaker has another default
	check := validate.Of("breaker.ClientConfig")
	check.Part(inner.Validate(), "breaker.Config.")
	check.That(c.MaxKeys >= 0, "MaxKeys", c.MaxKeys, "must be > 0 (0 means 1024)")
	check.That(c.Trials >= 0 && c.Trials <= maxTrials, "Trials", c.Trials, fmt.Sprintf("must be > 0 and <= %d (0 means %d)", maxTrials, defaultTrials))
	return check.Err()
}

func mustStay(old int) string { return fmt.Sprintf("must stay %d", old) }

// core returns the Config of the breakers, without the registry of the plugin.
func (c ClientConfig) core() breaker.Config {
	if c.OpenDelay == nil {
		c.OpenDelay = backoff.Exponential{Delay: 30 * time.Second, Max: 10 * time.Minute, Jitter: 0.2}
	}
	return breaker.Config{
		Name: c.Name, FailureRate: c.FailureRate, Failures: c.Failures, SlowCall: c.SlowCall, SlowRate: c.SlowRate,
		Window: c.Window, WindowTime: c.WindowTime, MinCalls: c.MinCalls,
		OpenDelay: c.OpenDelay, Trials: cmp.Or(c.Trials, defaultTrials), TrialRule: c.TrialRule, TrialTimeout: c.TrialTimeout, MaxHalfOpen: c.MaxHalfOpen,
		JudgeWithHistory: c.JudgeWithHistory, Initial: c.Initial, PanicsFail: c.PanicsFail, OnStateChange: c.OnStateChange,
	}
}

// TripOnRetryAfter is a Trip for a ClientConfig: a response opens the breaker for the pause
// that it asks for if its status is 429 or 503, or from 400 on and it has a Retry-After.
func TripOnRetryAfter(resp *http.Response, asked time.Duration) time.Duration {
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		return asked
	}
	wait, _ := client.RetryAfter(&http.Response{StatusCode: resp.StatusCode, Header: header.OnlyRetryAfter(resp.Header)})
	return min(asked, wait)
}
