package breaker

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/validate"
)

// Defaults and limits of a [Config].
const (
	defaultFailureRate = 0.5
	defaultWindow      = 100
	defaultOpenTime    = 30 * time.Second

	maxWindow = 1 << 20
)

// Config configures a [Breaker] or a [Group]. The zero value is useful: it opens after 5 failures in a row, or if half of the last 20 to
// 100 calls have failed. At first it stays open for about half a minute.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the breaker in errors and in the registry. If empty, it is "default".
	Name string
	// Registry registers the breaker under the kind "breaker" and its name. If nil, it is not registered.
	Registry *core.Registry

	// Failures is the number of failures in a row that opens the breaker. If zero, it is 5. If negative, there is no such limit.
	Failures int
	// FailureRate is the ratio of failures among the calls in the window, above 0 and at most 1, at which the breaker opens. If zero, it is
	// 0.5. If negative, there is no such limit.
	FailureRate float64
	// SlowCall is the duration above which a call is slow, whatever its outcome. If zero, no call is slow. It must not be negative.
	SlowCall time.Duration
	// SlowRate is the ratio of slow calls among those in the window, above 0 and at most 1, at which the breaker opens. If zero, it is 1. It
	// needs a SlowCall.
	SlowRate float64
	// MinCalls is the number of calls that must be in the window before the rates are evaluated. If zero, it is 20, or Window if that is less.
	MinCalls int
	// Window is the size of the window: the number of the last calls that it counts, at most 1,048,576. If zero, it is
	// 100.
	Window int
	// WindowTime makes the window consist of the calls that have ended within this time, instead of a number of calls. It
	// moves on by a tenth of that time. If not zero, it is at least 1 millisecond, and Window must be zero.
	WindowTime time.Duration

	// OpenDelay computes how long the breaker stays open, by the number of times that it has opened since it was closed. If nil, it is 30
	// seconds, doubled each time up to 10 minutes, with a fifth of it random. It is called under a lock.
	OpenDelay backoff.Strategy
	// MaxRetryAfter is the longest time for which [Permit.Failed] and [Permit.Trip], and so an upstream, can keep the breaker open, jitter
	// included. If zero, it is 10 minutes. It must not be negative.
	MaxRetryAfter time.Duration
	// Trials is the number of calls that are admitted while half-open. The breaker opens again if FailureRate of them fail (0.5 if FailureRate
	// is negative) or SlowRate are slow, and closes otherwise. If zero, it is 5. It is at most 1,024.
	Trials int
	// MaxHalfOpen is how long the breaker waits for the results of the last trials before it opens again. If zero, it is 1
	// minute. If negative, there is no limit.
	MaxHalfOpen time.Duration
	// Initial is the state in which a breaker begins. The zero value is Closed.
	Initial State
	// MaxKeys is the number of breakers of a [Group]. If it is reached, 16 are checked, and the first idle one is evicted: one that is closed,
	// had no trial for an hour in which it could, or is ForcedOpen, Disabled or MetricsOnly like Initial. If none is idle, the new key shares
	// one breaker with others. If zero, it is 1,024. [New] does not use it.
	MaxKeys int

	// Classify returns the outcome of an operation of [Do]. If nil, it is the function [Classify].
	Classify func(ctx context.Context, result any, err error) core.Outcome
	// OnStateChange is called after each change of the state, in order, by the goroutine that caused it. It can use the breaker. It can be
	// nil.
	OnStateChange func(ctx context.Context, c StateChange)
}

// Validate reports every field that cannot be used, joined. Each is a *core.ConfigError.
func (c Config) Validate() error {
	check := validate.Of("breaker.Config")
	check.That(c.FailureRate <= 1, "FailureRate", c.FailureRate, "must be > 0 and <= 1 (0 means 0.5, negative no limit)")
	check.That(c.SlowCall >= 0, "SlowCall", c.SlowCall, "must be >= 0 (0 means that no call is slow)")
	check.That(c.SlowRate >= 0 && c.SlowRate <= 1, "SlowRate", c.SlowRate, "must be > 0 and <= 1 (0 means 1)")
	check.That(c.SlowRate == 0 || c.SlowCall != 0, "SlowRate", c.SlowRate, "must be 0 when there is no SlowCall")
	check.That(c.Window >= 0 && c.Window <= maxWindow, "Window", c.Window, "must be > 0 and <= 1048576 (0 means 100)")
	check.That(c.WindowTime == 0 || c.WindowTime >= time.Millisecond, "WindowTime", c.WindowTime, "must be >= 1ms (0 means calls)")
	check.That(c.WindowTime == 0 || c.Window == 0, "Window", c.Window, "must be 0 when WindowTime is set")
	most := maxWindow
	if c.WindowTime == 0 {
		most = cmp.Or(c.Window, defaultWindow)
	}
	check.That(c.MinCalls >= 0 && c.MinCalls <= max(0, most), "MinCalls", c.MinCalls,
		fmt.Sprintf("must be > 0 and <= %d, the calls in a window (0 means 20)", most))
	check.Strategy("OpenDelay", c.OpenDelay)
	check.That(c.MaxRetryAfter >= 0, "MaxRetryAfter", c.MaxRetryAfter, "must be > 0 (0 means 10m0s)")
	check.That(c.Trials >= 0 && c.Trials <= 1024, "Trials", c.Trials, "must be > 0 and <= 1024 (0 means 5)")
	check.That(c.Initial <= MetricsOnly, "Initial", c.Initial, "must be a state")
	check.That(c.MaxKeys >= 0, "MaxKeys", c.MaxKeys, "must be > 0 (0 means 1024)")
	return check.Err()
}

// rulesOf returns a Config with its defaults. A disabled limit has a value that is never reached.
func rulesOf(c *Config) *Config {
	r := *c
	r.Failures = limit(c.Failures, 5, math.MaxInt)
	r.FailureRate = limit(c.FailureRate, defaultFailureRate, math.Inf(1))
	if r.SlowRate = cmp.Or(c.SlowRate, 1); c.SlowCall == 0 {
		r.SlowRate = math.Inf(1)
	}
	r.Window = cmp.Or(c.Window, defaultWindow)
	r.MinCalls = cmp.Or(c.MinCalls, min(20, r.Window))
	if c.OpenDelay == nil {
		r.OpenDelay = backoff.Exponential{Delay: defaultOpenTime, Max: 10 * time.Minute, Jitter: 0.2}
	}
	r.MaxRetryAfter = cmp.Or(c.MaxRetryAfter, 10*time.Minute)
	r.Trials = cmp.Or(c.Trials, 5)
	r.MaxHalfOpen = limit(c.MaxHalfOpen, time.Minute, math.MaxInt64)
	r.MaxKeys = cmp.Or(c.MaxKeys, 1024)
	return &r
}

// limit returns field, or zero if it is 0, or none if it is negative.
func limit[T int | float64 | time.Duration](field, zero, none T) T {
	if field < 0 {
		return none
	}
	return cmp.Or(field, zero)
}
