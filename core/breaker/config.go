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
	defaultFailureRate  = 0.5
	defaultSlowRate     = 1.0 // of a Config with a SlowCall
	defaultWindow       = 100
	defaultMinCalls     = 100 // of a time window; for a count window it is Window
	defaultTrials       = 10
	defaultOpenTime     = time.Minute
	defaultTrialTimeout = time.Minute

	maxWindow     = 1 << 20
	maxTrials     = 1 << 10
	minWindowTime = time.Millisecond
)

// Config configures a [Breaker]. The zero value is ready to use: the breaker opens for a
// minute if half of the last 100 calls failed, and then makes 10 trials.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the breaker. If empty, it is "default".
	Name string
	// Registry is where the breaker is found under the kind "breaker" and its
	// name. If nil, it is in none.
	Registry *core.Registry

	// FailureRate is the share of failed calls in the window, above 0 and at most 1, at
	// which the breaker opens. It is compared after every counted call, a successful one
	// too, once there are MinCalls in the window. If zero, it is 0.5, or Failures is
	// used if that is set.
	FailureRate float64
	// Failures is the number of failed calls in the window at which the breaker opens,
	// as an alternative to FailureRate, whatever the number of calls. If zero,
	// FailureRate is used. It must not be negative or above Window (1,048,576 with a
	// WindowTime), and must be zero if FailureRate is set. With Failures and Window both
	// n, n failures in a row open the breaker.
	Failures int
	// SlowCall is the time above which a call is slow, whatever its outcome. If zero, no
	// call is slow. It must not be negative. With a SlowCall the clock is read twice for
	// each call.
	SlowCall time.Duration
	// SlowRate is the share of slow calls in the window, above 0 and at most 1, at which
	// the breaker opens too. It is compared whenever FailureRate is. If zero,
	// it is 1. It must be zero without a SlowCall.
	SlowRate float64
	// Window is the number of calls in the window, the last ones, at most 1,048,576. If
	// zero, it is 100. It must be zero if WindowTime is set.
	Window int
	// WindowTime is the length of a window that holds the calls that ended within this
	// time, instead of a number of calls. They expire a tenth of it at a time. If zero,
	// there is no time window; otherwise it is at least a millisecond.
	WindowTime time.Duration
	// MinCalls is the number of calls in the window required before the rates are
	// evaluated; Failures does not need it. If zero, it is Window, or 100 if
	// WindowTime is set. It is at most Window (1,048,576 with a WindowTime), and must be
	// zero if Failures is set without a SlowCall.
	MinCalls int

	// OpenDelay returns how long the breaker stays open. n is 1 when the breaker opens
	// from closed, and increases each time that trials fail after that; prev is the
	// previous result, even if a failure kept the breaker open for longer
	// ([Permit.Failed]). If nil, it is always a minute. A result of 0 or less makes
	// the next call a trial. Its Delay is called under the lock of the breaker: it must
	// be fast and pure, must not use the breaker, and must not panic.
	OpenDelay backoff.Strategy
	// Trials is the number of calls that are admitted while half-open and decide, by
	// TrialRule. If zero, it is 10. It is at most 1,024.
	Trials int
	// TrialRule decides from the results of the trials whether the breaker closes. The
	// zero value is [ByRate].
	TrialRule TrialRule
	// TrialTimeout is how long a trial keeps its slot. After that its result does not
	// count, and another call can have the slot. If zero, it is a minute.
	// If negative, there is no limit.
	TrialTimeout time.Duration
	// MaxHalfOpen is how long the breaker stays half-open at most, before it opens
	// again. If zero, there is no limit. It must not be negative.
	MaxHalfOpen time.Duration
	// JudgeWithHistory applies the rates to the window while half-open, with the trials
	// added to it, and keeps the window when the breaker closes. If the window will have
	// fewer than MinCalls, the trials alone decide. The decision is made once the
	// outstanding trials cannot change it; with a WindowTime, from which calls can
	// expire, once all have ended. It must be false with Failures and [AllMustSucceed].
	JudgeWithHistory bool
	// Initial is the state that the breaker begins in. The zero value is Closed.
	Initial State

	// Classify returns the outcome of a call of [Do]. If nil, [DefaultClassify] is used.
	// ctx is the one that Do was called with, and result is that of the operation;
	// converting it to any may allocate.
	Classify func(ctx context.Context, result any, err error) core.Outcome
	// PanicsFail counts a panic of the operation of [Do] as a [core.Failure]. If false,
	// it is [core.Ignored]. The panic goes on in both cases.
	PanicsFail bool
	// Trip opens the breaker by a single call of [Do], for as long as it returns,
	// whatever the rates: see [Permit.Trip]. The call is then a failure, and Classify is
	// not called. If the result is 0 or less, Classify decides. Trip is not called for a
	// rejection by an inner mechanism ([core.ErrRejected]), nor if the operation panics.
	// If nil, no single call opens the breaker, and nothing is allocated.
	Trip func(ctx context.Context, result any, err error) time.Duration

	// OnStateChange is called after each change of the state, in order, by the goroutine that caused it. It can use the breaker,
	// and can be nil.
	OnStateChange func(ctx context.Context, c StateChange)
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c Config) Validate() error {
	check := validate.Of("breaker.Config")
	check.That(c.FailureRate >= 0 && c.FailureRate <= 1, "FailureRate", c.FailureRate, "must be > 0 and <= 1 (0 means 0.5)")
	check.That(c.SlowCall >= 0, "SlowCall", c.SlowCall, "must be >= 0 (0 means that no call is slow)")
	if c.SlowCall == 0 {
		check.That(c.SlowRate == 0, "SlowRate", c.SlowRate, "must be 0 when there is no SlowCall")
	} else {
		check.That(c.SlowRate >= 0 && c.SlowRate <= 1, "SlowRate", c.SlowRate, "must be > 0 and <= 1 (0 means 1)")
	}
	c.validateWindow(check)
	c.validateFailures(check)
	check.Part(validate.Own(c.OpenDelay))
	check.That(c.Trials >= 0 && c.Trials <= maxTrials, "Trials", c.Trials, fmt.Sprintf("must be > 0 and <= %d (0 means %d)", maxTrials, defaultTrials))
	check.That(c.TrialRule <= AllMustSucceed, "TrialRule", c.TrialRule, "must be ByRate or AllMustSucceed")
	check.That(c.MaxHalfOpen >= 0, "MaxHalfOpen", c.MaxHalfOpen, "must be >= 0 (0 means no limit)")
	check.That(!c.JudgeWithHistory || c.TrialRule == ByRate, "JudgeWithHistory", c.JudgeWithHistory, "must be false with AllMustSucceed")
	check.That(c.Initial <= MetricsOnly, "Initial", c.Initial, "must be a state")
	return check.Err()
}

func (c Config) validateWindow(check *validate.Check) {
	if c.WindowTime == 0 {
		check.That(c.Window >= 0 && c.Window <= maxWindow, "Window", c.Window, fmt.Sprintf("must be > 0 and <= %d (0 means %d)", maxWindow, defaultWindow))
		window := cmp.Or(c.Window, defaultWindow)
		check.That(c.MinCalls >= 0 && c.MinCalls <= max(0, window), "MinCalls", c.MinCalls, fmt.Sprintf("must be > 0 and <= Window, which is %d (0 means Window)", window))
		return
	}
	check.That(c.WindowTime >= minWindowTime, "WindowTime", c.WindowTime, fmt.Sprintf("must be >= %v (0 means a window of calls)", minWindowTime))
	check.That(c.Window == 0, "Window", c.Window, "must be 0 when WindowTime is set")
	check.That(c.MinCalls >= 0 && c.MinCalls <= maxWindow, "MinCalls", c.MinCalls, fmt.Sprintf("must be > 0 and <= %d (0 means %d)", maxWindow, defaultMinCalls))
}

func (c Config) validateFailures(check *validate.Check) {
	if c.Failures == 0 {
		return
	}
	largest, of := cmp.Or(c.Window, defaultWindow), "Window, which is "
	if c.WindowTime != 0 {
		largest, of = maxWindow, ""
	}
	check.That(c.Failures > 0 && c.Failures <= max(0, largest), "Failures", c.Failures, fmt.Sprintf("must be >= 0 and <= %s%d (0 means by FailureRate)", of, largest))
	check.That(c.FailureRate == 0, "Failures", c.Failures, "must be 0 when FailureRate is set")
	check.That(c.MinCalls == 0 || c.SlowCall != 0, "MinCalls", c.MinCalls, "must be 0 when Failures is set and there is no SlowCall")
	check.That(!c.JudgeWithHistory, "JudgeWithHistory", c.JudgeWithHistory, "must be false when Failures is set")
}

// rules are a Config with its defaults, and the numbers that follow from it.
type rules struct {
	Config
	failures     int     // that open; out of reach unless Failures is set
	rate         float64 // that opens; out of reach if Failures is set
	trialRate    float64 // the same while half-open
	slowRate     float64 // out of reach unless SlowCall is set
	trialTimeout time.Duration
	fewest       int // failures that can reach the rate, or less
	fewestSlow   int // slow calls, the same
}

func rulesOf(c *Config) *rules {
	r := &rules{Config: *c, failures: math.MaxInt, rate: math.Inf(1), slowRate: math.Inf(1), trialTimeout: never}
	r.trialRate = cmp.Or(c.FailureRate, defaultFailureRate)
	if c.Failures > 0 {
		r.failures = c.Failures
	} else {
		r.rate, r.FailureRate = r.trialRate, r.trialRate
	}
	if c.SlowCall > 0 {
		r.SlowRate = cmp.Or(c.SlowRate, defaultSlowRate)
		r.slowRate = r.SlowRate
	}
	r.Window = cmp.Or(c.Window, defaultWindow)
	switch {
	case c.MinCalls != 0:
	case c.Failures > 0 && c.SlowCall == 0:
		r.MinCalls = 1 // the rates decide nothing
	case c.WindowTime != 0:
		r.MinCalls = defaultMinCalls
	default:
		r.MinCalls = r.Window
	}
	if c.OpenDelay == nil {
		r.OpenDelay = backoff.Constant{Delay: defaultOpenTime}
	}
	r.Trials = cmp.Or(c.Trials, defaultTrials)
	if c.TrialTimeout >= 0 {
		r.trialTimeout = cmp.Or(c.TrialTimeout, defaultTrialTimeout)
	}
	r.fewest = fewest(r.rate, r.MinCalls)
	r.fewestSlow = fewest(r.slowRate, r.MinCalls)
	return r
}

// fewest returns a number that is not above the fewest calls of a kind that reach a rate
// among at least minCalls.
func fewest(rate float64, minCalls int) int {
	if n := rate * float64(minCalls); n < math.MaxInt32 {
		return int(n) // rounded down
	}
	return math.MaxInt32
}
