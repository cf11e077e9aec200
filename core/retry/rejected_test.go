package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/retry"
)

func TestARejectionAfterARealAttemptDoesNotSayThatNoCallWasMade(t *testing.T) {
	t.Parallel()
	no := rejection{after: 7 * time.Second}
	declined := errors.New("declined")
	for _, tt := range []struct {
		name     string
		cfg      retry.Config
		ends     []error
		attempts int
		reason   retry.Verdict
	}{
		{"not the last attempt", retry.Config{}, []error{errBoom, no}, 2, retry.Rejected},
		{"the last attempt", retry.Config{MaxAttempts: 2}, []error{errBoom, no}, 2, retry.Rejected},
		{"retried", retry.Config{RetryRejected: true}, []error{errBoom, no}, 3, retry.Exhausted},
		{"rejected first", retry.Config{RetryRejected: true}, []error{no, errBoom, no}, 3, retry.Exhausted},
		{"too long", retry.Config{RetryRejected: true, MaxElapsed: time.Second}, []error{errBoom, no}, 2, retry.RetryAfterTooLong},
		{
			"RetryIf declines it",
			retry.Config{RetryRejected: true, RetryIf: func(err error) bool { return !errors.Is(err, core.ErrRejected) }},
			[]error{errBoom, no},
			2,
			retry.Ignored,
		},
		{"the real one is the last real one", retry.Config{MaxAttempts: 9}, []error{declined, errBoom, no}, 3, retry.Rejected},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := tt.cfg
				cfg.Backoff = backoff.Constant{}
				op := &script{ends: tt.ends}
				_, err := retry.Do(t.Context(), core.Must(retry.New(cfg)), op.run)
				require.NotErrorIs(t, err, core.ErrRejected, "a call was made")
				require.ErrorIs(t, err, retry.ErrExhausted)
				require.ErrorIs(t, err, errBoom)
				require.NotErrorIs(t, err, declined)
				require.Contains(t, err.Error(), "no (before that: boom)")
				found, ok := errors.AsType[rejection](err)
				require.True(t, ok)
				require.Equal(t, no, found)
				wait, ok := core.RetryAfter(err)
				require.True(t, ok)
				require.Equal(t, no.after, wait)
				exhausted, ok := errors.AsType[*retry.Error](err)
				require.True(t, ok)
				require.Equal(t, tt.reason, exhausted.Reason)
				require.Equal(t, tt.attempts, exhausted.Attempts)
				require.Equal(t, tt.attempts, op.calls)
			})
		})
	}
}

func TestARejectionAfterAResultThatAsksForARetry(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}, RetryResult: func(any) bool { return true }}))
	_, err := retry.Do(t.Context(), p, func(ctx context.Context) (int, error) {
		if retry.FromContext(ctx).Retry == 0 {
			return 1, nil
		}
		return 0, core.ErrRejected
	})
	require.NotErrorIs(t, err, core.ErrRejected)
	require.EqualError(t, err, "retry: gave up after 2 attempts (rejected): rejected")
	_, ok := core.RetryAfter(err)
	require.False(t, ok, "it asks for no wait")
	_, ok = errors.AsType[statusError](err)
	require.False(t, ok)
}

func TestOnlyRejectionsStillSayThatNoCallWasMade(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}, RetryRejected: true}))
	op := &script{ends: []error{core.ErrRejected}}
	_, err := retry.Do(t.Context(), p, op.run)
	require.Equal(t, 3, op.calls)
	require.ErrorIs(t, err, core.ErrRejected)
	require.ErrorIs(t, err, retry.ErrExhausted)
}

func TestCancelInTheWaitAfterALaterRejection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, cancel)
		p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{Delay: time.Second}, RetryRejected: true}))
		_, err := retry.Do(ctx, p, (&script{ends: []error{errBoom, rejection{after: time.Hour}}}).run)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, core.ErrRejected)
		require.ErrorIs(t, err, errBoom)
		require.ErrorAs(t, err, &rejection{})
	})
}

func TestAnOuterBreakerCountsWhatAnInnerOneRejectedAfterRealFailures(t *testing.T) {
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

func TestARejectionThatSaysThatWaitingDoesNotHelpIsNotRetried(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err      error
		attempts int
	}{
		"never":            {rejection{after: -1}, 1},
		"at once":          {rejection{}, 3},
		"does not say":     {core.ErrRejected, 3},
		"never and a wait": {errors.Join(rejection{after: -1}, rejection{after: 1}), 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := core.Must(retry.New(retry.Config{RetryRejected: true, Backoff: backoff.Constant{}}))
			op := &script{ends: []error{tt.err}}
			_, err := retry.Do(t.Context(), p, op.run)
			require.ErrorIs(t, err, core.ErrRejected)
			require.Equal(t, tt.attempts, op.calls)
			require.EqualValues(t, tt.attempts%3, p.Stats().Suppressed[retry.Rejected])
		})
	}
}

func TestAnAttemptWhoseRetryIsCanceledIsAFinalFailure(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := core.Must(retry.New(retry.Config{Delay: func(context.Context, retry.Info) time.Duration { cancel(); return 0 }}))
	_, err := retry.Do(ctx, p, (&script{ends: []error{errBoom}}).run)
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, retry.Stats{Failed: 1, FinalFailures: 1, Suppressed: suppressed(retry.Canceled)}, p.Stats())
}
