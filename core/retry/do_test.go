package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

var (
	errBoom = errors.New("boom")
	errWeb  = errors.New("web")
)

const ms = time.Millisecond

// exactly is Kresil's default strategy: exact, without jitter.
func exactly() backoff.Strategy { return backoff.Exponential{Jitter: -1} }

// noted returns a registry that appends the events of the policies in it, as in "again 1" or "done 2".
func noted(events *[]string) *core.Registry {
	return eventtest.Registry(func(_ context.Context, e registry.Event) {
		what := map[string]string{
			"attempt failed, a retry follows": "again", "retry succeeded": "done", "retries exhausted": "exhausted",
			"error is not retried": "ignored", "retry suppressed": e.Attr("reason").String(),
		}[e.Text]
		*events = append(*events, fmt.Sprintf("%s %d", what, e.Attr("retry").Int64()))
	})
}

// A script is an operation whose attempts end as listed; the last goes on for ever.
type script struct {
	ends  []error
	calls int
}

func (s *script) run(context.Context) (string, error) {
	s.calls++
	err := s.ends[min(s.calls, len(s.ends))-1]
	if err != nil {
		return "", err
	}
	return "fine", nil
}

// takes, deferred in a bubble, checks how long it took there: defer takes(t, d)().
func takes(t *testing.T, want time.Duration) func() {
	t.Helper()
	start := time.Now()
	return func() { require.Equal(t, want, time.Since(start)) }
}

// A rejection asks for a wait.
type rejection struct{ after time.Duration }

func (rejection) Error() string               { return "no" }
func (rejection) Is(target error) bool        { return target == core.ErrRejected }
func (r rejection) RetryAfter() time.Duration { return r.after }

// asks is an ordinary error that asks for a wait.
type asks time.Duration

func (asks) Error() string               { return "busy" }
func (a asks) RetryAfter() time.Duration { return time.Duration(a) }

// A list is an error that == cannot compare.
type list []string

func (l list) Error() string { return l[0] }

// TestDo has a row for each way in which a call can end.
func TestDo(t *testing.T) {
	t.Parallel()
	onlyBoom := func(err error) bool { return errors.Is(err, errBoom) }
	never := func(error) bool { return false }
	for name, tt := range map[string]struct {
		cfg    retry.Config
		ends   []error
		calls  int
		err    string // "" is a success
		bare   bool   // err is the operation's own
		events []string
		stats  retry.Stats
	}{
		"success":                     {ends: []error{nil}, calls: 1, stats: retry.Stats{Succeeded: 1}},
		"second attempt succeeds":     {ends: []error{errBoom, nil}, calls: 2, events: []string{"again 1", "done 1"}, stats: retry.Stats{Recovered: 1, Retries: 1}},
		"last attempt succeeds":       {ends: []error{errBoom, errWeb, nil}, calls: 3, events: []string{"again 1", "again 2", "done 2"}, stats: retry.Stats{Recovered: 1, Retries: 2}},
		"always failing":              {ends: []error{errWeb, errBoom}, calls: 3, err: "retry: default: gave up after attempt 3 (exhausted): boom", events: []string{"again 1", "again 2", "exhausted 2"}, stats: retry.Stats{Failed: 1, Retries: 2}},
		"named":                       {cfg: retry.Config{Name: "api", MaxAttempts: 2}, ends: []error{errBoom}, calls: 2, err: "retry: api: gave up after attempt 2 (exhausted): boom", events: []string{"again 1", "exhausted 1"}, stats: retry.Stats{Failed: 1, Retries: 1}},
		"one attempt":                 {cfg: retry.Config{MaxAttempts: 1}, ends: []error{errBoom}, calls: 1, err: "boom", bare: true, events: []string{"exhausted 0"}, stats: retry.Stats{Failed: 1}},
		"RetryIf":                     {cfg: retry.Config{RetryIf: never}, ends: []error{errBoom}, calls: 1, err: "boom", bare: true, events: []string{"ignored 0"}, stats: retry.Stats{Failed: 1}},
		"RetryIf, later":              {cfg: retry.Config{RetryIf: onlyBoom}, ends: []error{errBoom, errWeb}, calls: 2, err: "retry: default: gave up after attempt 2 (permanent): web", events: []string{"again 1", "ignored 1"}, stats: retry.Stats{Failed: 1, Retries: 1}},
		"permanent":                   {ends: []error{core.Permanent(errBoom)}, calls: 1, err: "boom", bare: true, events: []string{"ignored 0"}, stats: retry.Stats{Failed: 1}},
		"permanent, whatever RetryIf": {cfg: retry.Config{RetryIf: func(error) bool { t.Error("asked"); return true }}, ends: []error{fmt.Errorf("x: %w", core.Permanent(errBoom))}, calls: 1, err: "x: boom", bare: true, events: []string{"ignored 0"}, stats: retry.Stats{Failed: 1}},
		"permanent, later":            {ends: []error{errWeb, core.Permanent(errBoom)}, calls: 2, err: "retry: default: gave up after attempt 2 (permanent): boom", events: []string{"again 1", "ignored 1"}, stats: retry.Stats{Failed: 1, Retries: 1}},
		"permanent rejection":         {cfg: retry.Config{RetryRejected: true}, ends: []error{core.Permanent(rejection{time.Second})}, calls: 1, err: "no", bare: true, events: []string{"ignored 0"}, stats: retry.Stats{Failed: 1}},
		"waiting does not help":       {ends: []error{asks(-1)}, calls: 1, err: "busy", bare: true, events: []string{"ignored 0"}, stats: retry.Stats{Failed: 1}},
		"rejected":                    {ends: []error{rejection{time.Second}}, calls: 1, err: "no", bare: true, events: []string{"rejected 0"}, stats: retry.Stats{Failed: 1, Suppressed: 1}},
		"rejected, later":             {ends: []error{errBoom, rejection{time.Second}}, calls: 2, err: "retry: default: gave up after attempt 2 (rejected): no", events: []string{"again 1", "rejected 1"}, stats: retry.Stats{Failed: 1, Retries: 1, Suppressed: 1}},
		"rejected, no attempt left":   {cfg: retry.Config{MaxAttempts: 1}, ends: []error{rejection{}}, calls: 1, err: "no", bare: true, events: []string{"ignored 0"}, stats: retry.Stats{Failed: 1}},
		"RetryRejected":               {cfg: retry.Config{RetryRejected: true}, ends: []error{rejection{}, nil}, calls: 2, events: []string{"again 1", "done 1"}, stats: retry.Stats{Recovered: 1, Retries: 1}},
		"RetryRejected, hopeless":     {cfg: retry.Config{RetryRejected: true}, ends: []error{rejection{-1}}, calls: 1, err: "no", bare: true, events: []string{"rejected 0"}, stats: retry.Stats{Failed: 1, Suppressed: 1}},
		"RetryRejected, and a wait":   {cfg: retry.Config{RetryRejected: true}, ends: []error{errors.Join(rejection{-1}, rejection{1}), nil}, calls: 2, events: []string{"again 1", "done 1"}, stats: retry.Stats{Recovered: 1, Retries: 1}},
		"asks for too long":           {cfg: retry.Config{MaxRetryAfter: time.Second}, ends: []error{errBoom, asks(time.Second + 1)}, calls: 2, err: "retry: default: gave up after attempt 2 (retry_after): busy", events: []string{"again 1", "retry_after 1"}, stats: retry.Stats{Failed: 1, Retries: 1, Suppressed: 1}},
		"asks for a century":          {ends: []error{asks(math.MaxInt64)}, calls: 1, err: "busy", bare: true, events: []string{"retry_after 0"}, stats: retry.Stats{Failed: 1, Suppressed: 1}},
		"budget":                      {cfg: retry.Config{MaxAttempts: 9, Budget: core.Must(retry.NewBudget(0, 2))}, ends: []error{errBoom}, calls: 3, err: "retry: default: gave up after attempt 3 (budget): boom", events: []string{"again 1", "again 2", "budget 2"}, stats: retry.Stats{Failed: 1, Retries: 2, Suppressed: 1}},
		"cannot be compared":          {ends: []error{list{"invalid"}}, calls: 3, err: "retry: default: gave up after attempt 3 (exhausted): invalid", events: []string{"again 1", "again 2", "exhausted 2"}, stats: retry.Stats{Failed: 1, Retries: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				defer takes(t, time.Duration(0)+map[string]time.Duration{"RetryRejected, and a wait": 1}[name])()
				var events []string
				tt.cfg.Registry, tt.cfg.Backoff = noted(&events), backoff.Constant{}
				p := core.Must(retry.New(tt.cfg))
				op := &script{ends: tt.ends}
				got, err := retry.Do(t.Context(), p, op.run)
				require.Equal(t, tt.calls, op.calls)
				require.Equal(t, tt.events, events)
				require.Equal(t, tt.stats, p.Stats())
				if tt.err == "" {
					require.NoError(t, err)
					require.Equal(t, "fine", got)
					return
				}
				require.EqualError(t, err, tt.err)
				e, wrapped := errors.AsType[*retry.Error](err)
				require.Equal(t, tt.bare, !wrapped)
				if wrapped {
					require.ErrorIs(t, err, retry.ErrExhausted)
					require.Equal(t, tt.calls, e.Attempts)
					require.NotErrorIs(t, err, core.ErrRejected, "an attempt was made")
				}
			})
		})
	}
}

// A rejection after an attempt that was made asks for the wait that it asks for alone.
func TestWaitOfALateRejection(t *testing.T) {
	t.Parallel()
	for _, last := range []error{core.ErrRejected, core.ErrClosed, rejection{-1}, rejection{0}, rejection{time.Minute}} {
		p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
		_, err := retry.Do(t.Context(), p, (&script{ends: []error{errBoom, last}}).run)
		want, asks := core.RetryAfter(last)
		got, ok := core.RetryAfter(err)
		require.Equal(t, asks, ok, "%v", last)
		require.Equal(t, want, got)
		require.Equal(t, blame.Hopeless(last), blame.Hopeless(err), "an outer retry is as useful as after the rejection alone")
		require.NotErrorIs(t, err, core.ErrRejected)
	}
}

func TestResultsThatAreRetried(t *testing.T) {
	t.Parallel()
	below := func(least int) func(any) bool { return func(v any) bool { return v.(int) < least } }
	for name, tt := range map[string]struct {
		cfg  retry.Config
		want int
		err  string
	}{
		"good enough":       {retry.Config{RetryResult: below(2)}, 2, ""},
		"never good enough": {retry.Config{RetryResult: below(9)}, 3, "retry: default: gave up after attempt 3 (exhausted): the last result asks for another"},
		"one attempt":       {retry.Config{RetryResult: below(9), MaxAttempts: 1}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen []any
			tt.cfg.Backoff, tt.cfg.OnRetry = backoff.Constant{}, func(_ context.Context, r retry.Retry) { seen = append(seen, r.Result, r.Err, r.Attempt) }
			calls := 0
			got, err := retry.Do(t.Context(), core.Must(retry.New(tt.cfg)), func(context.Context) (int, error) { calls++; return calls, nil })
			require.Equal(t, tt.want, got, "never hidden")
			if tt.want > 1 {
				require.Equal(t, []any{1, nil, 2}, seen[:3])
			}
			if tt.err == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.err)
			require.NoError(t, errors.Unwrap(err))
		})
	}
}

func TestLoop(t *testing.T) {
	t.Parallel()
	again := retry.Decision{Retry: true}
	for name, tt := range map[string]struct {
		cfg       retry.Config
		ends      []error
		decision  retry.Decision
		checks    int // calls of check
		attempts  int
		discarded int
		took      time.Duration
		reason    string
	}{
		"not wanted":       {ends: []error{errBoom}, checks: 1, attempts: 1},
		"result":           {ends: []error{nil}, decision: again, checks: 3, attempts: 3, discarded: 2, reason: "exhausted"},
		"error":            {ends: []error{errBoom}, decision: again, checks: 3, attempts: 3, discarded: 2, reason: "exhausted"},
		"After":            {ends: []error{errBoom}, decision: retry.Decision{Retry: true, After: time.Minute}, checks: 3, attempts: 3, discarded: 2, took: 2 * time.Minute, reason: "exhausted"},
		"After, too long":  {ends: []error{errBoom}, decision: retry.Decision{Retry: true, After: time.Hour}, checks: 1, attempts: 1},
		"error says more":  {ends: []error{asks(time.Minute)}, decision: retry.Decision{Retry: true, After: time.Second}, checks: 3, attempts: 3, discarded: 2, took: 2 * time.Minute, reason: "exhausted"},
		"Not":              {ends: []error{errBoom}, decision: retry.Decision{Retry: true, Not: "not_repeatable"}, checks: 1, attempts: 1},
		"rejected":         {ends: []error{errBoom, rejection{}}, decision: again, checks: 1, attempts: 2, discarded: 1, reason: "rejected"},
		"permanent":        {ends: []error{errBoom, core.Permanent(errWeb)}, decision: again, checks: 1, attempts: 2, discarded: 1, reason: "permanent"},
		"RetryIf is asked": {cfg: retry.Config{RetryIf: func(error) bool { panic("asked") }}, ends: []error{errBoom, nil}, decision: again, checks: 3, attempts: 3, discarded: 2, reason: "exhausted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				defer takes(t, tt.took)()
				tt.cfg.Backoff = backoff.Constant{}
				op, checks, discarded := &script{ends: tt.ends}, 0, 0
				tt.decision.Discard = func() { discarded++ }
				_, err := retry.Loop(t.Context(), core.Must(retry.New(tt.cfg)), op.run, func(string, error) retry.Decision { checks++; return tt.decision })
				require.Equal(t, []int{tt.checks, tt.attempts, tt.discarded}, []int{checks, op.calls, discarded})
				e, _ := errors.AsType[*retry.Error](err)
				if tt.reason == "" {
					require.Nil(t, e)
					return
				}
				require.Equal(t, tt.reason, e.Reason)
			})
		})
	}
}

func TestDiscardCountsAsWaiting(t *testing.T) {
	t.Parallel()
	for name, took := range map[time.Duration]time.Duration{300 * ms: 800 * ms, time.Second: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			defer takes(t, took)()
			p := core.Must(retry.New(retry.Config{MaxAttempts: 2, Backoff: backoff.Constant{Delay: 800 * ms}}))
			_, _ = retry.Loop(t.Context(), p, (&script{ends: []error{errBoom}}).run, func(string, error) retry.Decision {
				return retry.Decision{Retry: true, Discard: func() { time.Sleep(name) }}
			})
		})
	}
}

func TestAttempt(t *testing.T) {
	t.Parallel()
	policy := core.Must(retry.New(retry.Config{MaxAttempts: 2, Backoff: backoff.Constant{}}))
	require.Equal(t, 1, retry.Attempt(t.Context()))
	var numbers [][2]int
	_, err := retry.Do(t.Context(), policy, func(ctx context.Context) (int, error) {
		out := retry.Attempt(ctx)
		return retry.Do(ctx, policy, func(ctx context.Context) (int, error) {
			numbers = append(numbers, [2]int{out, retry.Attempt(ctx)})
			return 0, errBoom
		})
	})
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, [][2]int{{1, 1}, {1, 2}, {2, 1}, {2, 2}}, numbers, "the inner one does not show the outer one's number")
}

func TestNilPolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		op := &script{ends: []error{errBoom}}
		start := time.Now()
		_, err := retry.Do(t.Context(), nil, op.run)
		require.ErrorIs(t, err, retry.ErrExhausted)
		require.Equal(t, 3, op.calls)
		require.GreaterOrEqual(t, time.Since(start), 750*ms)
		require.LessOrEqual(t, time.Since(start), 1500*ms)
		_, err = retry.Loop(t.Context(), nil, op.run, func(string, error) retry.Decision { return retry.Decision{} })
		require.Equal(t, errBoom, err)
	})
}

func TestContextDoneBeforehand(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errWeb)
	p := core.Must(retry.New(retry.Config{}))
	op := &script{ends: []error{nil}}
	_, err := retry.Do(ctx, p, op.run)
	require.Equal(t, errWeb, err)
	require.Zero(t, op.calls)
	require.Equal(t, retry.Stats{Failed: 1}, p.Stats())
}

func TestContextDoneWithinAnAttempt(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{"failure": errBoom, "success": nil} {
		for _, attempt := range []int{1, 2} {
			t.Run(fmt.Sprint(name, attempt), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				asked := 0
				p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}, RetryIf: func(error) bool { asked++; return true }}))
				_, err := retry.Do(ctx, p, func(ctx context.Context) (int, error) {
					if retry.Attempt(ctx) < attempt {
						return 0, errWeb
					}
					cancel()
					return 0, end
				})
				require.Equal(t, attempt-1, asked)
				require.ErrorIs(t, err, end)
				if attempt == 2 && end != nil {
					require.EqualError(t, err, "retry: default: gave up after attempt 2 (canceled): boom")
					require.NotErrorIs(t, err, retry.ErrExhausted)
				}
			})
		}
	}
}

func TestContextDoneInAWait(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cause error
		ends  []error
		err   string
	}{
		"canceled":       {context.Canceled, []error{errBoom}, "retry: default: gave up after attempt 1 (canceled): context canceled (last error: boom)"},
		"cause":          {errWeb, []error{errBoom}, "retry: default: gave up after attempt 1 (canceled): web (last error: boom)"},
		"later":          {errWeb, []error{rejection{}, errBoom}, "retry: default: gave up after attempt 2 (canceled): web (last error: boom)"},
		"late rejection": {errWeb, []error{errBoom, rejection{time.Minute}}, "retry: default: gave up after attempt 2 (canceled): web (last error: no)"},
		"a result":       {errWeb, []error{nil}, "retry: default: gave up after attempt 1 (canceled): web"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				defer takes(t, 90*time.Second)()
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(90*time.Second, func() { cancel(tt.cause) })
				p := core.Must(retry.New(retry.Config{
					RetryRejected: true, RetryResult: func(any) bool { return true },
					Backoff: backoff.Constant{Delay: time.Duration(2-len(tt.ends))*time.Hour + time.Minute},
				}))
				_, err := retry.Do(ctx, p, (&script{ends: tt.ends}).run)
				require.EqualError(t, err, tt.err)
				require.ErrorIs(t, err, tt.cause)
				require.NotErrorIs(t, err, retry.ErrExhausted)
				require.NotErrorIs(t, err, core.ErrRejected)
				require.EqualValues(t, 1, p.Stats().Suppressed)
				if name == "late rejection" {
					require.ErrorAs(t, err, &rejection{})
				}
			})
		})
	}
}

// net/http looks no deeper than this for a timeout.
func TestErrorIsATimeout(t *testing.T) {
	t.Parallel()
	for err, want := range map[*retry.Error]bool{{Err: context.DeadlineExceeded}: true, {Err: errWeb}: false, {}: false} {
		require.Equal(t, want, (&url.Error{Err: err}).Timeout())
	}
}

func TestAttemptTimeoutIsNotTheCallersDeadline(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context) (int, error) {
		ctx, cancel := context.WithTimeout(ctx, 50*ms)
		defer cancel()
		if retry.Attempt(ctx) == 3 {
			return 7, nil
		}
		<-ctx.Done()
		return 0, ctx.Err()
	}
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
	for limit, want := range map[time.Duration]error{time.Second: nil, 20 * ms: context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			defer takes(t, min(limit, 100*ms))()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := retry.Do(ctx, p, hang)
			require.Equal(t, want, err)
		})
	}
}

func TestOuterBreakerCountsLateRejections(t *testing.T) {
	t.Parallel()
	inner := core.Must(breaker.New(breaker.Config{Name: "inner", Window: 2}))
	outer := core.Must(breaker.New(breaker.Config{Name: "outer"}))
	p := core.Must(core.NewPipeline(outer, core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}, MaxAttempts: 5})), inner))
	fails := func(context.Context) (int, error) { return 0, errBoom }
	_, err := core.Do(t.Context(), p, fails)
	require.ErrorIs(t, err, breaker.ErrOpen)
	require.EqualValues(t, 1, outer.Stats().Failures)
	_, err = core.Do(t.Context(), p, fails)
	require.ErrorIs(t, err, core.ErrRejected, "no call was made this time")
	require.EqualValues(t, 1, outer.Stats().Ignored)
}
