package breaker

import (
	"context"
	"net/http"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/validate"
	"github.com/gresil/gresil/server"
)

// ServerConfig configures a [Server]. The zero value is ready to use: one breaker,
// which opens for a minute when half of the last 100 requests failed, and then
// makes 10 trials.
//
// A ServerConfig is a plain value: copy it to derive another one from it.
type ServerConfig struct {
	// Name names the plugin. If empty, it is "default".
	Name string
	// Registry is where the plugin is found under the kind "breaker" and its name. If
	// nil, it is in none.
	Registry *core.Registry

	// Key returns the key of a request, as [server.Pattern] does. Requests with the same
	// key share a breaker, and requests without one too. If nil, there is one breaker. It is in the
	// text of an [*OpenError], so it must not be a secret.
	Key server.Key
	// MaxKeys is the number of breakers at most. If zero, it is 1024. It must not be
	// negative, and must be zero without a Key.
	MaxKeys int

	// FailureRate is the share of failed requests in the window, above 0 and at most 1,
	// at which a breaker opens. If zero, it is 0.5, or Failures decides if that is set.
	FailureRate float64
	// Failures is the number of failed requests in the window at which a breaker opens,
	// as an alternative to FailureRate, whatever the number of requests. If zero,
	// FailureRate decides. It must not be negative or above Window, and must be zero if
	// FailureRate is set. With Failures and Window both n, n failures in a row open it.
	Failures int
	// SlowCall is the time, until the headers are there, above which a request is slow,
	// whatever its outcome. It includes the time in which the handler waits for the body of
	// the request, so clients that upload slowly can open the breaker: give uploads one of
	// their own, by Key, or none, by [Server.Override]. If zero, no request is slow. It must
	// not be negative.
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
	// it is a minute.
	OpenDelay backoff.Strategy
	// Trials is the number of requests that are admitted while half-open and decide, by
	// TrialRule. If zero, it is 10.
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

	// Classify returns the outcome of a request. It is called once: before the final
	// header is sent, when the connection is taken over, or when the handler has
	// returned. Later events, as a panic in the middle of the body or a timeout plugin
	// that cuts it, change nothing. It must not write. If nil, it is [server.Classify].
	// If the handler panics before, Classify is not called: the request is a failure, or
	// not counted if the value is [http.ErrAbortHandler]. Nor is it called for a request
	// that an inner plugin rejected, which is [core.Ignored].
	//
	// A Failure is [core.Ignored] if the client is at fault: it has left, an outer limit left
	// less than half of its time when the request arrived here, or the body of the request could
	// not be read. So is one that ended while it waited for a slow body, or after that took half
	// of the time or more: by the end of the context, or by 502, 503 or 504 after 100
	// milliseconds of it, with which an inner timeout or a reverse proxy answers.
	Classify func(r *http.Request, status int) core.Outcome
	// OnRejected answers a request that is rejected. Retry-After is set. rej.Err is an *OpenError
	// of core/breaker. If nil, it is [server.Reject], which is also called if OnRejected writes
	// nothing.
	OnRejected func(w http.ResponseWriter, r *http.Request, rej server.Rejection)
	// OnStateChange is called after each change of the state, in order, by the goroutine that caused it. It can use the breaker,
	// and can be nil.
	OnStateChange func(ctx context.Context, c StateChange)
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c ServerConfig) Validate() error {
	check := validate.Of("breaker.ServerConfig")
	check.Part(c.core().Validate(), "breaker.Config.")
	check.That(c.MaxKeys >= 0, "MaxKeys", c.MaxKeys, "must be > 0 (0 means 1024)")
	check.That(c.Key != nil || c.MaxKeys <= 0, "MaxKeys", c.MaxKeys, "must be 0 when there is no Key")
	return check.Err()
}

// core returns the Config of the breakers, without the registry of the plugin.
func (c ServerConfig) core() breaker.Config {
	return breaker.Config{
		Name: c.Name, FailureRate: c.FailureRate, Failures: c.Failures, SlowCall: c.SlowCall, SlowRate: c.SlowRate,
		Window: c.Window, WindowTime: c.WindowTime, MinCalls: c.MinCalls,
		OpenDelay: c.OpenDelay, Trials: c.Trials, TrialRule: c.TrialRule, TrialTimeout: c.TrialTimeout, MaxHalfOpen: c.MaxHalfOpen,
		JudgeWithHistory: c.JudgeWithHistory, Initial: c.Initial, OnStateChange: c.OnStateChange,
	}
}
