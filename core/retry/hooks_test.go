package retry_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

func TestPanickingHookIsCountedAndHarmless(t *testing.T) {
	t.Parallel()
	bad := func(context.Context, retry.Info) { panic("hook") }
	every := retry.Hooks{Retried: bad, Recovered: bad, Exhausted: bad, Ignored: bad, Suppressed: bad}
	var events, joined []string
	p := core.Must(retry.New(retry.Config{
		MaxAttempts: 2, Backoff: backoff.None{},
		Hooks:   every.Join(noted(&joined)),
		RetryIf: func(err error) bool { return err == errBoom }, //nolint:errorlint // the very same
	}))
	p.Observe(every)
	p.Observe(noted(&events))
	for _, ends := range [][]error{{errBoom, nil}, {errBoom}, {errWeb}, {rejection{}}} {
		op := &script{ends: ends}
		_, err := retry.Do(t.Context(), p, op.run)
		if ends[len(ends)-1] == nil {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, ends[0])
		}
	}
	want := []string{"again 1", "done 1", "again 1", "exhausted 1", "ignored 0", "rejected 0"}
	require.Equal(t, want, events, "the others are called all the same")
	require.Equal(t, want, joined)
	require.EqualValues(t, 2*len(want), p.Stats().HookPanics)
}

func TestHookMayCallBack(t *testing.T) {
	t.Parallel()
	var p *retry.Policy
	called := 0
	back := func(ctx context.Context, info retry.Info) {
		called++
		_ = p.Stats()
		p.Observe(retry.Hooks{})()
		if called == 1 {
			_, _ = retry.Do(ctx, p, (&script{ends: []error{errBoom}}).run)
		}
		require.NoError(t, p.Close())
	}
	p = core.Must(retry.New(retry.Config{Backoff: backoff.None{}, Registry: new(core.Registry), Hooks: retry.Hooks{Retried: back, Exhausted: back}}))
	_, err := retry.Do(t.Context(), p, (&script{ends: []error{errBoom}}).run)
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, 6, called)
}

func TestJoin(t *testing.T) {
	t.Parallel()
	var first, second []string
	one := retry.Hooks{Retried: noted(&first).Retried}
	both := one.Join(noted(&second))
	p := core.Must(retry.New(retry.Config{Backoff: backoff.None{}, Hooks: both.Join(retry.Hooks{})}))
	_, _ = retry.Do(t.Context(), p, (&script{ends: []error{errBoom}}).run)
	require.Equal(t, []string{"again 1", "again 2"}, first)
	require.Equal(t, []string{"again 1", "again 2", "exhausted 2"}, second)
	require.Nil(t, one.Exhausted, "unchanged")
}

func TestPolicyUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{Backoff: backoff.None{}}))
	var wg sync.WaitGroup
	const goroutines, calls = 8, 300
	for i := range goroutines {
		wg.Go(func() {
			for n := range calls {
				switch (i + n) % 3 {
				case 0:
					p.Observe(retry.Hooks{Retried: func(context.Context, retry.Info) {}})()
					_, _ = retry.Do(t.Context(), p, (&script{ends: []error{nil}}).run)
				case 1:
					_, _ = retry.Do(t.Context(), p, (&script{ends: []error{errBoom, nil}}).run)
				case 2:
					_, _ = retry.Do(t.Context(), p, (&script{ends: []error{errBoom}}).run)
				}
			}
		})
	}
	wg.Wait()
	const each = goroutines * calls / 3
	require.Equal(t, retry.Stats{
		Succeeded: each, Recovered: each, FailedRetried: each,
		Retries: 3 * each, RetryableFailures: 4 * each,
	}, p.Stats())
}
