package retry

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/jitter"
)

// A Call is the state of one operation between its attempts. [Do] loops over it, and so
// can adapters that decide themselves which failures to retry:
//
//	c := p.Begin(nil)
//	for {
//		result, err := operation(c.Context(ctx))
//		verdict := c.Next(ctx, retry.Attempt{Err: err, Result: result, Retryable: worthIt(result, err)})
//		if verdict != retry.Again {
//			return result, c.Error(err, result) // or err itself
//		}
//		discard(result)
//		if err := c.Wait(ctx); err != nil {
//			return nil, err
//		}
//	}
//
// Call Next exactly once for each attempt, the last and the successful one too,
// and Wait exactly once after each Again. A Call is a value for the stack of one
// goroutine; nothing in it must be released, and it may be abandoned. If it is abandoned
// after an Again, it has used its part of the Budget, and is in no count of calls.
type Call struct {
	policy  *Policy
	cfg     *Config
	started time.Duration // since policy.base; only if timed
	retry   int           // retries begun
	prev    time.Duration // the last Delay
	due     time.Duration // since policy.base: the end of the wait, if there is one; with ended, that of the attempt
	next    *Info         // of the retry that follows, after Again
	madeErr error         // of the last attempt that failed and was no rejection
	timed   bool
	ended   bool // EndedAt was called after the attempt
	made    bool // an attempt failed and was no rejection
	last    Verdict
	token   purse // of the retry that was promised, or runs
}

// An Attempt describes how an attempt ended. The zero value is a success.
type Attempt struct {
	// Err is the error of the attempt, for OnRetry and errors. An adapter may make one for
	// a result that is a failure.
	Err error
	// Result is the result of the attempt, for Delay and OnRetry. It may be nil.
	Result any
	// Retryable means that the attempt failed and may be repeated. Otherwise it
	// succeeded if Err is nil, and is ignored if not.
	Retryable bool
	// Floor is the shortest wait before another attempt. If it is longer than the backoff, the
	// jitter of the backoff comes on top of it.
	Floor time.Duration
	// Suppress, unless it is Done, is the reason against another attempt although
	// the failure is Retryable: RetryAfterTooLong, NotReplayable or Rejected.
	//
	// Rejected also means that the attempt was not made. It then neither pays into the
	// Budget nor takes from it, as with an Err that matches core.ErrRejected.
	Suppress Verdict
}

// Begin begins a call. An override that is not nil replaces the policy's own Config for
// this call, and must have passed Validate. Observers stay. Of a Config, a Call uses
// MaxAttempts, Backoff, Delay, MaxElapsed, Budget and OnRetry.
func (p *Policy) Begin(override *Config) Call {
	s := p.life.Load()
	c := Call{policy: p, cfg: &s.Config, timed: s.Settings.timed}
	if override != nil {
		c.cfg, c.timed = override, timed(override)
	}
	if p.life.Calls() {
		c.timed = true
	}
	if c.timed {
		c.started = p.now()
	}
	return c
}

// Info describes the next attempt, or the one that runs. On the first attempt it is the
// zero Info.
func (c *Call) Info() Info {
	if c.next == nil {
		return Info{}
	}
	return *c.next
}

// Context returns the context for the next attempt, in which [FromContext] finds its
// Info. ctx is the caller's own, the same for each attempt. On the first attempt the
// result is ctx itself, unless it has the Info of an outer retry.
func (c *Call) Context(ctx context.Context) context.Context {
	if c.next == nil && ctx.Value(infoKey{}) == nil {
		return ctx
	}
	return context.WithValue(ctx, infoKey{}, c.next)
}

// Next returns the verdict on the attempt that has just ended, counts it and
// calls OnRetry. It does not wait. Several conditions prevent a retry; the first of these
// holds: ctx is done, the attempt is not Retryable, a.Suppress is Rejected, no attempt
// is left, another a.Suppress, the Budget is used up, the wait would reach MaxElapsed
// or the deadline of ctx. If no attempt is left, the first and the third are Ignored:
// no retry is suppressed.
func (c *Call) Next(ctx context.Context, a Attempt) Verdict {
	if a.Err == nil && !a.Retryable {
		return c.done(ctx, a)
	}
	return c.failed(ctx, a)
}

func (c *Call) done(ctx context.Context, a Attempt) Verdict {
	c.last = Done
	c.pay(ctx)
	if c.retry == 0 {
		c.policy.counters.succeeded.Inc()
		return Done
	}
	c.policy.counters.recovered.Add(1)
	c.report(ctx, &Info{Retry: c.retry, Result: a.Result, Verdict: Done})
	return Done
}

func (c *Call) failed(ctx context.Context, a Attempt) Verdict {
	made := a.Suppress != Rejected && !errors.Is(a.Err, core.ErrRejected)
	if made {
		c.pay(ctx)
		c.made, c.madeErr = true, a.Err
	}
	if !made || c.next != nil && c.retry < c.next.Retry { // the latter is not begun
		c.putBack()
	}
	info := &Info{Retry: c.retry, Err: a.Err, Result: a.Result, Verdict: c.judge(ctx, a)}
	if info.Verdict == Again {
		c.plan(ctx, a.Floor, info)
	}
	c.last = info.Verdict
	count, final := &c.policy.counters, !a.Retryable || c.last == Canceled || c.last == Rejected
	if final {
		count.final.Add(1)
	} else {
		count.retryable.Add(1)
	}
	if final && c.retry+1 >= c.cfg.maxAttempts() {
		info.Verdict = Ignored // no attempt was left: no retry is suppressed
	}
	if info.Verdict == Again {
		c.next = info
		source := 0
		if info.FromRetryAfter {
			source = 1
		}
		count.waits[source].Observe(info.Delay)
	} else {
		c.countFailed()
	}
	c.finish(ctx, info)
	return info.Verdict
}

// judge returns the verdict, as far as it does not depend on the wait.
func (c *Call) judge(ctx context.Context, a Attempt) Verdict {
	switch {
	case ctx.Err() != nil:
		return Canceled
	case !a.Retryable:
		return Ignored
	case a.Suppress == Rejected:
		return Rejected
	case c.retry+1 >= c.cfg.maxAttempts():
		return Exhausted
	case a.Suppress != Done:
		return a.Suppress
	case c.cfg.Budget == nil:
		return Again
	}
	if c.token = c.cfg.Budget.take(); c.token == noPurse {
		return OverBudget
	}
	return Again
}

// pay pays into the budget, once for a call, unless the call is part of an outer retry.
func (c *Call) pay(ctx context.Context) {
	if b := c.cfg.Budget; b != nil && !c.made && (ctx.Value(infoKey{}) == nil || FromContext(ctx).Retry == 0) {
		b.pay()
	}
}

// putBack puts back the token of a retry that is not made.
func (c *Call) putBack() {
	if c.token != noPurse {
		c.cfg.Budget.putBack(c.token)
		c.token = noPurse
	}
}

// plan sets the wait in info and c.due, or a verdict other than Again if there is no time
// for the wait.
func (c *Call) plan(ctx context.Context, floor time.Duration, info *Info) {
	planned := false
	defer func() {
		if !planned { // there is no time, or Delay panics
			c.putBack()
		}
	}()
	info.Retry++
	if !c.ended && c.cfg.Delay != nil {
		c.due = c.policy.now()
	}
	known := c.ended || c.cfg.Delay != nil
	c.ended = false
	var strategy backoff.Strategy
	if c.cfg.Delay != nil {
		info.Elapsed = c.elapsed()
		info.Delay = max(0, c.cfg.Delay(ctx, *info))
		now := c.policy.now()
		floor, c.due = floor-(now-c.due), now // Delay may have waited
	} else {
		strategy = c.cfg.backoff()
		info.Delay = max(0, strategy.Next(info.Retry, c.prev))
	}
	drawn := info.Delay
	if floor > drawn {
		info.Delay, info.FromRetryAfter = jitter.Above(floor, strategy, info.Retry, c.prev, drawn), true
	} else {
		floor = drawn
	}
	c.prev = drawn
	if info.Delay > 0 && !known { // otherwise the clock is not read (BenchmarkDoSecondTry)
		c.due = c.policy.now()
	}
	info.Delay, planned = c.fit(ctx, info.Delay, floor)
	c.due += min(info.Delay, math.MaxInt64-max(0, c.due))
	switch {
	case ctx.Err() != nil:
		info.Verdict, planned = Canceled, false
	case planned:
		return
	case info.FromRetryAfter:
		info.Verdict = RetryAfterTooLong
	default:
		info.Verdict = Deadline
	}
	info.Retry--
}

// fit returns a wait that counts from c.due, and reports whether it ends before MaxElapsed and
// the deadline of ctx. What is above floor is jitter: if only that would reach them, it
// is folded into the time that is left.
func (c *Call) fit(ctx context.Context, delay, floor time.Duration) (time.Duration, bool) {
	deadline, ok := ctx.Deadline()
	if !ok && c.cfg.MaxElapsed <= 0 {
		return delay, true
	}
	now, left := c.policy.now(), time.Duration(math.MaxInt64)
	if ok {
		left = time.Until(deadline)
	}
	if c.cfg.MaxElapsed > 0 {
		left = min(left, c.cfg.MaxElapsed-(now-c.started))
	}
	if left <= 0 || delay == 0 {
		return delay, left > 0
	}
	passed := now - c.due
	left += min(passed, math.MaxInt64-left)
	if room := left - floor; delay >= left && room > 0 {
		delay = floor + (delay-floor)%room
	}
	return delay, delay < left
}

// EndedAt sets when the attempt ended, before Next: the wait counts from then, except for
// the result of Config.Delay, which counts from its return. Without it, the wait counts
// from the call of Next.
func (c *Call) EndedAt(t time.Time) { c.due, c.ended = t.Sub(c.policy.base), true }

// Left returns the rest of the wait that the last Next decided on, and 0 if it is over.
func (c *Call) Left() time.Duration {
	if c.next == nil || c.next.Delay == 0 {
		return 0
	}
	return max(0, c.due-c.policy.now())
}

// Wait waits until the end of the wait that the last Next decided on ([Info].Delay). It
// counts from the end of the attempt, so time that has passed since then is not waited
// again. If ctx ends before, or has ended, no other attempt must be made: Wait returns
// an [*Error] with its Cause and the error of the last attempt.
func (c *Call) Wait(ctx context.Context) error {
	if left := c.Left(); left > 0 {
		timer := time.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if ctx.Err() == nil {
		c.retry++
		c.policy.counters.retries.Add(1)
		return nil
	}
	c.putBack()
	info := *c.next
	info.Retry, info.Verdict = c.retry, Canceled
	c.last = Canceled
	c.countFailed()
	c.finish(ctx, &info)
	return &Error{Reason: Canceled, Attempts: c.retry + 1, Cause: context.Cause(ctx), Err: c.shown(info.Err)}
}

// Error returns the error for the caller of a call that has ended with err and result of
// the last attempt. It is an [*Error] if a retry was made and another one was
// wanted, or if err is a rejection ([core.ErrRejected]) after an attempt that was made.
// Otherwise it is err.
func (c *Call) Error(err error, result any) error {
	wrap := c.rejectedLater(err)
	switch c.last {
	case Exhausted, Deadline, RetryAfterTooLong, OverBudget:
		wrap = c.retry > 0
	case Done, Again, Ignored, NotReplayable, Canceled, Rejected:
	}
	if !wrap {
		return err
	}
	return &Error{Attempts: c.retry + 1, Reason: c.last, Err: c.shown(err), Result: result}
}

// shown returns the error of the last attempt for the caller.
func (c *Call) shown(err error) error {
	if c.rejectedLater(err) {
		return &laterRejectionError{rejection: err, made: c.madeErr}
	}
	return err
}

// rejectedLater reports whether err is a rejection after an attempt that was made.
func (c *Call) rejectedLater(err error) bool { return c.made && errors.Is(err, core.ErrRejected) }

func (c *Call) countFailed() {
	if c.retry == 0 {
		c.policy.counters.failed.Add(1)
	} else {
		c.policy.counters.failedRetried.Add(1)
	}
}

func (c *Call) finish(ctx context.Context, info *Info) {
	c.policy.counters.suppressed[info.Verdict].Add(1)
	c.report(ctx, info)
}

func (c *Call) report(ctx context.Context, info *Info) {
	info.Elapsed = c.elapsed()
	c.policy.emit(ctx, info)
	if f := c.cfg.OnRetry; f != nil && info.Verdict == Again {
		f(ctx, Retry{Name: c.policy.Name(), Attempt: info.Retry + 1, Wait: info.Delay, Err: info.Err, Result: info.Result})
	}
}

func (c *Call) elapsed() time.Duration {
	if !c.timed {
		return 0
	}
	return c.policy.now() - c.started
}
