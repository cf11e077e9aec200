package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

func TestEventsOfEveryEnding(t *testing.T) {
	t.Parallel()
	rejected := error(rejection{time.Second})
	onlyBoom := func(err error) bool { return errors.Is(err, errBoom) }
	for _, tt := range []struct {
		name   string
		cfg    retry.Config
		ends   []error
		events []string
		stats  retry.Stats
	}{
		{
			"always failing",
			retry.Config{},
			[]error{errBoom},
			[]string{"again 1", "again 2", "exhausted 2"},
			retry.Stats{FailedRetried: 1, Retries: 2, RetryableFailures: 3},
		},
		{
			"second attempt succeeds",
			retry.Config{},
			[]error{errBoom, nil},
			[]string{"again 1", "done 1"},
			retry.Stats{Recovered: 1, Retries: 1, RetryableFailures: 1},
		},
		{ // Kresil told nothing of a success of the last attempt
			"last attempt succeeds",
			retry.Config{},
			[]error{errBoom, errBoom, nil},
			[]string{"again 1", "again 2", "done 2"},
			retry.Stats{Recovered: 1, Retries: 2, RetryableFailures: 2},
		},
		{
			"two attempts, last succeeds",
			retry.Config{MaxAttempts: 2},
			[]error{errBoom, nil},
			[]string{"again 1", "done 1"},
			retry.Stats{Recovered: 1, Retries: 1, RetryableFailures: 1},
		},
		{
			"one attempt",
			retry.Config{MaxAttempts: 1},
			[]error{errBoom},
			[]string{"exhausted 0"},
			retry.Stats{Failed: 1, RetryableFailures: 1},
		},
		{
			"predicate is asked before the budget",
			retry.Config{MaxAttempts: 2, RetryIf: onlyBoom},
			[]error{errBoom, errWeb},
			[]string{"again 1", "ignored 1"},
			retry.Stats{FailedRetried: 1, Retries: 1, RetryableFailures: 1, FinalFailures: 1},
		},
		{
			"rejection is not retried",
			retry.Config{},
			[]error{rejected},
			[]string{"rejected 0"},
			retry.Stats{Failed: 1, FinalFailures: 1, Suppressed: suppressed(retry.Rejected)},
		},
		{
			"rejection after a failure",
			retry.Config{},
			[]error{errBoom, rejected},
			[]string{"again 1", "rejected 1"},
			retry.Stats{FailedRetried: 1, Retries: 1, RetryableFailures: 1, FinalFailures: 1, Suppressed: suppressed(retry.Rejected)},
		},
		{
			"success",
			retry.Config{},
			[]error{nil},
			nil,
			retry.Stats{Succeeded: 1},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var events []string
			tt.cfg.Registry, tt.cfg.Backoff = noted(&events), backoff.Constant{}
			p := core.Must(retry.New(tt.cfg))
			op := &script{ends: tt.ends}
			_, _ = retry.Do(t.Context(), p, op.run)
			require.Equal(t, tt.events, events)
			require.Equal(t, tt.stats, p.Stats())
			s := p.Stats()
			require.EqualValues(t, op.calls, s.Succeeded+s.Recovered+s.RetryableFailures+s.FinalFailures, "every attempt is counted once")
			require.EqualValues(t, 1, s.Succeeded+s.Recovered+s.Failed+s.FailedRetried, "every call is counted once")
		})
	}
}

func TestAnErrorWrapsTheLastOneOnlyAfterARetry(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
	_, err := retry.Do(t.Context(), p, (&script{ends: []error{errWeb, errBoom}}).run)
	var exhausted *retry.Error
	require.ErrorAs(t, err, &exhausted)
	require.Equal(t, 3, exhausted.Attempts)
	require.Equal(t, retry.Exhausted, exhausted.Reason)
	require.ErrorIs(t, err, errBoom)
	require.NotErrorIs(t, err, errWeb)
	require.EqualError(t, err, "retry: gave up after 3 attempts: boom")

	once := core.Must(retry.New(retry.Config{MaxAttempts: 1}))
	_, err = retry.Do(t.Context(), once, (&script{ends: []error{errBoom}}).run)
	require.Equal(t, errBoom, err, "bare")
}

func TestResultThatAsksForARetryIsReturnedInTheEnd(t *testing.T) {
	t.Parallel()
	below := func(least int) func(any) bool { return func(v any) bool { return v.(int) < least } }
	for _, tt := range []struct {
		name string
		cfg  retry.Config
		want int
		err  string
	}{
		{"good enough", retry.Config{RetryResult: below(2)}, 2, ""},
		{"never good enough", retry.Config{RetryResult: below(9)}, 3, "retry: gave up after 3 attempts: the last result asks for another"},
		{"one attempt", retry.Config{RetryResult: below(9), MaxAttempts: 1}, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.cfg.Backoff = backoff.Constant{}
			calls := 0
			got, err := retry.Do(t.Context(), core.Must(retry.New(tt.cfg)), func(context.Context) (int, error) { calls++; return calls, nil })
			require.Equal(t, tt.want, got, "never hidden")
			if tt.err == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.err)
			var exhausted *retry.Error
			require.ErrorAs(t, err, &exhausted)
			require.Equal(t, tt.want, exhausted.Result)
			require.NoError(t, exhausted.Err)
		})
	}
}

func TestInfoIsThatOfTheLastAttemptAlone(t *testing.T) {
	t.Parallel()
	var seen []string
	p := core.Must(retry.New(retry.Config{
		MaxAttempts: 4, RetryResult: func(v any) bool { return v == "again" },
		Delay: func(_ context.Context, info retry.Info) time.Duration {
			seen = append(seen, fmt.Sprint(info.Err, " ", info.Result))
			return 0
		},
	}))
	ends := []func() (string, error){
		func() (string, error) { return "", errBoom },
		func() (string, error) { return "again", nil },
		func() (string, error) { return "half", errWeb },
		func() (string, error) { return "fine", nil },
	}
	got, err := retry.Do(t.Context(), p, func(ctx context.Context) (string, error) { return ends[retry.FromContext(ctx).Retry]() })
	require.NoError(t, err)
	require.Equal(t, "fine", got)
	require.Equal(t, []string{"boom <nil>", "<nil> again", "web <nil>"}, seen, "no stale error, no stale result")
}

func TestInnerRetryThatGaveUpIsRetriedByTheOuterOne(t *testing.T) {
	t.Parallel()
	inner := core.Must(retry.New(retry.Config{MaxAttempts: 2, Backoff: backoff.Constant{}}))
	outer := core.Must(retry.New(retry.Config{MaxAttempts: 3, Backoff: backoff.Constant{}}))
	var numbers [][2]int
	_, err := retry.Do(t.Context(), outer, func(ctx context.Context) (int, error) {
		out := retry.FromContext(ctx).Retry
		return retry.Do(ctx, inner, func(ctx context.Context) (int, error) {
			numbers = append(numbers, [2]int{out, retry.FromContext(ctx).Retry})
			return 0, errBoom
		})
	})
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, [][2]int{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}}, numbers, "the inner one does not show the outer one's number")
}

func TestContextDoneBeforehand(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errWeb)
	for name, cfg := range map[string]retry.Config{"plain": {}, "observed": {Registry: noted(new([]string))}} {
		p := core.Must(retry.New(cfg))
		op := &script{ends: []error{nil}}
		_, err := retry.Do(ctx, p, op.run)
		require.Equal(t, errWeb, err, name)
		require.Zero(t, op.calls, name)
		require.Equal(t, retry.Stats{Failed: 1}, p.Stats(), name)
	}
}

func TestContextDoneWithinAnAttempt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var events []string
	p := core.Must(retry.New(retry.Config{
		Backoff: backoff.Constant{}, Registry: noted(&events),
		RetryIf: func(error) bool { t.Error("asked"); return true },
	}))
	calls := 0
	_, err := retry.Do(ctx, p, func(context.Context) (int, error) { calls++; cancel(); return 0, errBoom })
	require.Equal(t, errBoom, err, "what the operation says of it")
	require.Equal(t, 1, calls)
	require.Equal(t, []string{"canceled 0"}, events)

	ctx, cancel = context.WithCancel(t.Context())
	got, err := retry.Do(ctx, p, func(context.Context) (int, error) { cancel(); return 7, nil })
	require.NoError(t, err, "a success is a success")
	require.Equal(t, 7, got)
}

func TestContextDoneInDelayFunction(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var events []string
	p := core.Must(retry.New(retry.Config{
		Registry: noted(&events),
		Delay:    func(context.Context, retry.Info) time.Duration { cancel(); return 0 },
	}))
	op := &script{ends: []error{errBoom}}
	_, err := retry.Do(ctx, p, op.run)
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, 1, op.calls)
	require.Equal(t, []string{"canceled 0"}, events)
}

// A cancel in OnRetry comes before a wait of zero.
func TestContextDoneBeforeAWaitOfZero(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}, OnRetry: func(context.Context, retry.Retry) { cancel() }}))
	op := &script{ends: []error{errBoom}}
	_, err := retry.Do(ctx, p, op.run)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, 1, op.calls)
}

func TestWaitThatReachesTheDeadlineIsNotBegun(t *testing.T) {
	t.Parallel()
	type test struct {
		name     string
		deadline time.Duration // 0: none
		max      time.Duration // 0: none
		takes    time.Duration // each attempt
		err      error
		calls    int
		verdict  retry.Verdict
		took     time.Duration
	}
	for _, tt := range []test{
		{"deadline", 1400 * ms, 0, 0, errBoom, 2, retry.Deadline, 500 * ms},
		{"deadline, reached exactly", 1500 * ms, 0, 0, errBoom, 2, retry.Deadline, 500 * ms},
		{"deadline, just not reached", 1501 * ms, 0, 0, errBoom, 3, retry.Deadline, 1500 * ms},
		{"limit", 0, 1400 * ms, 0, errBoom, 2, retry.Deadline, 500 * ms},
		{"limit, reached exactly", 0, 1500 * ms, 0, errBoom, 2, retry.Deadline, 500 * ms},
		{"limit, just not reached", 0, 1501 * ms, 0, errBoom, 3, retry.Deadline, 1500 * ms},
		{"limit counts attempts too", 0, 1501 * ms, time.Second, errBoom, 2, retry.Deadline, 2500 * ms},
		{"limit does not cut an attempt", 0, ms, time.Second, errBoom, 1, retry.Deadline, time.Second},
		{"asks for too long", 3 * time.Second, 0, 0, rejection{3 * time.Second}, 1, retry.RetryAfterTooLong, 0},
		{"asks for a time that there is", 3 * time.Second, 0, 0, rejection{2 * time.Second}, 2, retry.RetryAfterTooLong, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				defer takes(t, tt.took)()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
					defer cancel()
				}
				var events []string
				p := core.Must(retry.New(retry.Config{
					MaxAttempts: 9, Backoff: exactly(), MaxElapsed: tt.max, RetryRejected: true,
					Registry: noted(&events),
				}))
				op := &script{ends: []error{tt.err}}
				_, err := retry.Do(ctx, p, func(ctx context.Context) (string, error) { time.Sleep(tt.takes); return op.run(ctx) })
				require.ErrorIs(t, err, tt.err)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, tt.calls, op.calls)
				require.Equal(t, fmt.Sprintf("%v %d", tt.verdict, tt.calls-1), events[len(events)-1])
				var exhausted *retry.Error
				if tt.calls > 1 {
					require.ErrorAs(t, err, &exhausted)
					require.Equal(t, tt.verdict, exhausted.Reason)
					require.Contains(t, err.Error(), tt.verdict.String())
				} else {
					require.Equal(t, tt.err, err, "bare")
				}
			})
		})
	}
}

func TestPolicyIsAMechanism(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{Name: "api", Backoff: backoff.Constant{}}))
	pipeline := core.Must(core.NewPipeline(p))
	require.Equal(t, "*retry.Policy(api)", pipeline.String())
	got, err := core.Do(t.Context(), pipeline, (&script{ends: []error{errBoom, nil}}).run)
	require.NoError(t, err)
	require.Equal(t, "fine", got)
}

func TestMapOfAnotherType(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{Map: func(any, error) (any, error) { return 7, nil }}))
	_, err := retry.Do(t.Context(), p, (&script{ends: []error{nil}}).run)
	require.EqualError(t, err, "core: a mechanism returned a int where the operation returns a string")
}

func TestMapSeesWhatTheCallerWouldGet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		defer takes(t, time.Second)()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		mapped := 0
		p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{Delay: time.Hour}, Map: func(_ any, err error) (any, error) {
			mapped++
			require.ErrorIs(t, err, context.Canceled)
			return "default", nil
		}}))
		got, err := retry.Do(ctx, p, (&script{ends: []error{errBoom}}).run)
		require.NoError(t, err)
		require.Equal(t, "default", got)
		require.Equal(t, 1, mapped)
	})
}

func TestPanicInTheOperationIsNotRetried(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{}))
	calls := 0
	require.PanicsWithValue(t, "boom", func() {
		_, _ = retry.Do(t.Context(), p, func(context.Context) (int, error) { calls++; panic("boom") })
	})
	require.Equal(t, 1, calls)
}

func TestAContextThatEndsInARetryLeavesItsOwnError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
	_, err := retry.Do(ctx, p, func(ctx context.Context) (int, error) {
		if retry.FromContext(ctx).Retry == 1 {
			cancel()
		}
		return 0, errBoom
	})
	require.Equal(t, errBoom, err)
	require.Equal(t, retry.Stats{FailedRetried: 1, Retries: 1, RetryableFailures: 1, FinalFailures: 1, Suppressed: suppressed(retry.Canceled)}, p.Stats())
}

func TestACallThatPanicsIsInNoCountOfCalls(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}}))
	require.Panics(t, func() {
		_, _ = retry.Do(t.Context(), p, func(ctx context.Context) (int, error) {
			if retry.FromContext(ctx).Retry == 1 {
				panic("boom")
			}
			return 0, errBoom
		})
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = retry.Do(ctx, p, func(context.Context) (int, error) { return 0, nil })
	require.Equal(t, retry.Stats{Failed: 1, Retries: 1, RetryableFailures: 1}, p.Stats())
}
