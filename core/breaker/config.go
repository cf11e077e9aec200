package breaker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
)

// Defaults of a [Config].
const (
	DefaultName         = "default"
	DefaultFailureRate  = 0.5
	DefaultSlowRate     = 1.0 // of a Config with a SlowCall
	DefaultWindow       = 100
	DefaultMinCalls     = 100 // of a time window; a count window has its size
	DefaultTrials       = 10
	DefaultOpenTime     = time.Minute
	DefaultTrialTimeout = time.Minute
)

// Limits of a [Config].
const (
	MaxWindow     = 1 << 20
	MaxTrials     = 1 << 10
	MinWindowTime = time.Millisecond
)

// DefaultOpenDelay returns the strategy of a Config that has none: always
// DefaultOpenTime.
func DefaultOpenDelay() backoff.Strategy { return backoff.Constant{Wait: DefaultOpenTime} }

// Config configures a [Breaker]. The zero value is ready to use: it opens for a
// minute when half of the last 100 calls failed, and then makes 10 trials.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the breaker. If empty, DefaultName is used.
	Name string
	// Registry is where the breaker is found under the kind "breaker" and its
	// name. If nil, it is in none.
	Registry *core.Registry

	// FailureRate is the share of failed calls in the window, above 0 and at most
	// 1, at which the breaker opens. It is compared after every call that is
	// counted, a successful one too, once there are MinCalls in the window.
	// If zero, DefaultFailureRate is used.
	FailureRate float64
	// SlowCall is how long a call may take: one that takes longer is slow, whatever
	// came of it. If zero, no call is slow. It must not be negative. With a SlowCall
	// the clock is read twice for each call.
	SlowCall time.Duration
	// SlowRate is the share of slow calls in the window, above 0 and at most 1, at
	// which the breaker opens too. It is used wherever FailureRate is, and in the same
	// way. If zero, DefaultSlowRate is used. It must be zero when there is no SlowCall.
	SlowRate float64
	// Window is how many calls the window holds, the last ones, at most MaxWindow.
	// If zero, DefaultWindow is used. It must be zero when WindowTime is set.
	Window int
	// WindowTime makes a window of the calls that ended within this time, in place
	// of a number of calls. They step out a tenth of it at a time. If not zero, it
	// is at least MinWindowTime.
	WindowTime time.Duration
	// MinCalls is how many calls there must be in the window before its rate says
	// anything. If zero, it is Window, or DefaultMinCalls when WindowTime is set.
	// It is at most Window; at most MaxWindow when WindowTime is set.
	MinCalls int

	// OpenDelay tells how long the breaker stays open. It is asked with n = 1 when
	// the breaker opens from closed, and with one more each time that trials fail
	// after that. prev is its own last answer, also where a failure made the breaker
	// open for longer ([Permit.Failed]). It is asked once for one opening, unless the
	// state is changed by hand meanwhile; calls are admitted until it has answered.
	// If nil, DefaultOpenDelay is used. With a delay of 0 the next call is a trial.
	// Its Delay is called with no lock held. Where it panics, which counts as a hook
	// that panics, or ends its goroutine, DefaultOpenTime is used.
	OpenDelay backoff.Strategy
	// Trials is how many calls are admitted while half-open, and decide: the
	// breaker opens again when the share of failed ones is FailureRate or more, or
	// that of slow ones SlowRate or more, and closes otherwise, in both cases as soon
	// as the outstanding ones cannot change that. If zero, DefaultTrials is used. It
	// is at most MaxTrials.
	Trials int
	// TrialTimeout is how long a trial keeps its slot. After that its result no longer
	// counts, and another call may have the slot.
	// If zero, DefaultTrialTimeout is used. If negative, there is no limit.
	TrialTimeout time.Duration
	// MaxHalfOpen is how long the breaker stays half-open at most, before it opens
	// again. If zero, there is no limit. It must not be negative.
	MaxHalfOpen time.Duration
	// JudgeWithHistory judges half-open by the window, to which the trials are
	// added; by the trials alone where the window will have fewer than MinCalls. It
	// is decided as soon as the outstanding trials cannot change that; with a
	// WindowTime, where calls may step out meanwhile, once all have ended. And it
	// keeps the window when the breaker closes, which else starts empty.
	JudgeWithHistory bool
	// Initial is the state that the breaker begins in. The zero value is Closed.
	Initial State

	// Classify tells how a call of [Do] ended. If nil, [DefaultClassify] is used.
	// ctx is the one that was given to Do, and result is what the operation
	// returned; making it an any may allocate.
	Classify func(ctx context.Context, result any, err error) core.Outcome
	// Trip opens the breaker by a single call of [Do], for as long as it returns,
	// whatever the rates: see [Permit.Trip]. The call counts as a failure then, and
	// Classify is not asked. With 0 or less it is judged as any other. It is not asked
	// for a rejection from further in ([core.ErrRejected]), nor where the operation
	// panics. If nil, no single call opens the breaker, and nothing is allocated.
	Trip func(ctx context.Context, result any, err error) time.Duration
	// Hooks observe the breaker. Any of them may be nil.
	Hooks Hooks
}

// With returns a copy of c changed by f; c itself is unchanged.
func (c Config) With(f func(*Config)) Config {
	f(&c)
	return c
}

// Validate reports every field that cannot be used, joined. Each is a
// [*core.ConfigError].
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, field string, value any, reason string) {
		if !ok {
			errs = append(errs, &core.ConfigError{Field: "breaker.Config." + field, Value: value, Reason: reason})
		}
	}
	check(c.FailureRate >= 0 && c.FailureRate <= 1, "FailureRate", c.FailureRate, "must be > 0 and <= 1 (0 means 0.5)")
	check(c.SlowCall >= 0, "SlowCall", c.SlowCall, "must be >= 0 (0 means that no call is slow)")
	if c.SlowCall == 0 {
		check(c.SlowRate == 0, "SlowRate", c.SlowRate, "must be 0 when there is no SlowCall")
	} else {
		check(c.SlowRate >= 0 && c.SlowRate <= 1, "SlowRate", c.SlowRate, "must be > 0 and <= 1 (0 means 1)")
	}
	if c.WindowTime == 0 {
		check(c.Window >= 0 && c.Window <= MaxWindow, "Window", c.Window, fmt.Sprintf("must be > 0 and <= %d (0 means %d)", MaxWindow, DefaultWindow))
		check(c.MinCalls >= 0 && c.MinCalls <= max(0, c.window()), "MinCalls", c.MinCalls, fmt.Sprintf("must be > 0 and <= Window, which is %d (0 means Window)", c.window()))
	} else {
		check(c.WindowTime >= MinWindowTime, "WindowTime", c.WindowTime, fmt.Sprintf("must be >= %v (0 means a window of calls)", MinWindowTime))
		check(c.Window == 0, "Window", c.Window, "must be 0 when WindowTime is set")
		check(c.MinCalls >= 0 && c.MinCalls <= MaxWindow, "MinCalls", c.MinCalls, fmt.Sprintf("must be > 0 and <= %d (0 means %d)", MaxWindow, DefaultMinCalls))
	}
	errs = append(errs, backoff.Validate(c.OpenDelay))
	check(c.Trials >= 0 && c.Trials <= MaxTrials, "Trials", c.Trials, fmt.Sprintf("must be > 0 and <= %d (0 means %d)", MaxTrials, DefaultTrials))
	check(c.MaxHalfOpen >= 0, "MaxHalfOpen", c.MaxHalfOpen, "must be >= 0 (0 means no limit)")
	check(c.Initial <= MetricsOnly, "Initial", c.Initial, "must be a state")
	return errors.Join(errs...)
}

func (c Config) name() string {
	if c.Name == "" {
		return DefaultName
	}
	return c.Name
}

func (c Config) failureRate() float64 {
	if c.FailureRate == 0 {
		return DefaultFailureRate
	}
	return c.FailureRate
}

// slowRate is beyond reach where no call is slow.
func (c Config) slowRate() float64 {
	switch {
	case c.SlowCall == 0:
		return math.Inf(1)
	case c.SlowRate == 0:
		return DefaultSlowRate
	}
	return c.SlowRate
}

func (c Config) window() int {
	if c.Window == 0 {
		return DefaultWindow
	}
	return c.Window
}

func (c Config) minCalls() int {
	switch {
	case c.MinCalls != 0:
		return c.MinCalls
	case c.WindowTime != 0:
		return DefaultMinCalls
	}
	return c.window()
}

func (c Config) openDelay() backoff.Strategy {
	if c.OpenDelay == nil {
		return DefaultOpenDelay()
	}
	return c.OpenDelay
}

func (c Config) trials() int {
	if c.Trials == 0 {
		return DefaultTrials
	}
	return c.Trials
}

func (c Config) trialTimeout() time.Duration {
	switch {
	case c.TrialTimeout == 0:
		return DefaultTrialTimeout
	case c.TrialTimeout < 0:
		return 1<<63 - 1
	}
	return c.TrialTimeout
}
