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

func TestSetConfig(t *testing.T) {
	t.Parallel()
	var r core.Registry
	var before, after, observed []string
	old := retry.Config{Name: "api", Registry: &r, MaxAttempts: 2, Backoff: backoff.None{}, Hooks: noted(&before)}
	p := core.Must(retry.New(old))
	p.Observe(noted(&observed))
	op := &script{ends: []error{errBoom}}
	_, _ = retry.Do(t.Context(), p, op.run)
	require.Equal(t, []string{"again 1", "exhausted 1"}, before)

	require.NoError(t, p.SetConfig(with(old, func(c *retry.Config) {
		c.MaxAttempts, c.Hooks = 3, noted(&after)
		c.Map = retry.MapError(func(error) error { return errWeb })
	})))
	_, err := retry.Do(t.Context(), p, op.run)
	require.Equal(t, errWeb, err)
	require.Equal(t, 5, op.calls)
	require.Equal(t, []string{"again 1", "exhausted 1"}, before, "no longer")
	require.Equal(t, []string{"again 1", "again 2", "exhausted 2"}, after)
	require.Equal(t, append(append([]string(nil), before...), after...), observed, "observers stay")
	require.EqualValues(t, 2, p.Stats().FailedRetried, "counts stay")
	require.Equal(t, 3, p.Config().MaxAttempts)

	// Without hooks and observers the direct way is taken again.
	require.NoError(t, p.SetConfig(with(old, func(c *retry.Config) { c.Hooks = retry.Hooks{} })))
	_, err = retry.Do(t.Context(), p, op.run)
	require.ErrorIs(t, err, errBoom)
	require.Len(t, after, 3)
}

func TestSetConfigKeepsTheNameAndTheRegistryThatItDoesNotSay(t *testing.T) {
	t.Parallel()
	var r core.Registry
	p := core.Must(retry.New(retry.Config{Name: "api", Registry: &r}))
	require.NoError(t, p.SetConfig(retry.Config{MaxAttempts: 7}))
	require.Equal(t, retry.Config{Name: "api", Registry: &r, MaxAttempts: 7}, p.Config())
	require.NoError(t, p.Close())
	_, found := r.Get("retry", "api")
	require.False(t, found)
}

func TestSetConfigThatCannotBeUsedChangesNothing(t *testing.T) {
	t.Parallel()
	var r core.Registry
	for _, cfg := range []retry.Config{{Registry: &r}, {Name: "default", Registry: &r}} {
		p := core.Must(retry.New(cfg))
		for want, change := range map[string]func(*retry.Config){
			"retry.Config.MaxAttempts = -1: must be >= 0 (0 means 3)": func(c *retry.Config) { c.MaxAttempts = -1 },
			"backoff.Constant.Wait = -1ns: must be >= 0":              func(c *retry.Config) { c.Backoff = backoff.Constant{Wait: -1} },
			"retry.Config.Name = other: must stay default":            func(c *retry.Config) { c.Name = "other" },
			"retry.Config.Registry = another one: must stay the same": func(c *retry.Config) { c.Registry = new(core.Registry) },
		} {
			bad := with(cfg, change)
			bad.MaxElapsed = 7
			err := p.SetConfig(bad)
			require.ErrorIs(t, err, core.ErrConfig)
			require.EqualError(t, err, want)
			require.Equal(t, cfg, p.Config())
		}
		require.NoError(t, p.SetConfig(with(cfg, func(c *retry.Config) { c.Name = retry.DefaultName })), "the same name")
		require.NoError(t, p.Close())
		_, found := r.Get("retry", "default")
		require.False(t, found)
	}
}

// A call ends under the Config that it began with.
func TestSetConfigInACall(t *testing.T) {
	t.Parallel()
	var before, after []string
	old := retry.Config{Backoff: backoff.None{}, Hooks: noted(&before), Map: retry.MapError(func(err error) error { return err })}
	p := core.Must(retry.New(old))
	calls := 0
	_, err := retry.Do(t.Context(), p, func(context.Context) (int, error) {
		if calls++; calls == 1 {
			require.NoError(t, p.SetConfig(retry.Config{
				MaxAttempts: 1, Hooks: noted(&after), RetryIf: func(error) bool { return false },
				Map: retry.MapError(func(error) error { return nil }),
			}))
		}
		return 0, errBoom
	})
	require.ErrorIs(t, err, errBoom)
	require.Equal(t, 3, calls)
	require.Equal(t, []string{"again 1", "again 2", "exhausted 2"}, before)
	require.Empty(t, after)
}

func TestSetConfigInACallThatIsRetriedForItsResult(t *testing.T) {
	t.Parallel()
	p := core.Must(retry.New(retry.Config{Backoff: backoff.None{}, RetryResult: func(any) bool { return true }}))
	calls := 0
	_, err := retry.Do(t.Context(), p, func(context.Context) (int, error) {
		calls++
		require.NoError(t, p.SetConfig(retry.Config{}))
		return calls, nil
	})
	require.ErrorIs(t, err, retry.ErrExhausted)
	require.Equal(t, 3, calls)
	got, err := retry.Do(t.Context(), p, func(context.Context) (int, error) { return 1, nil })
	require.NoError(t, err)
	require.Equal(t, 1, got)
}

// Two fields that belong together are never seen apart.
func TestSetConfigUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	twice := retry.Config{MaxAttempts: 2, Backoff: backoff.None{}, Map: func(_ any, err error) (any, error) { return 2, nil }}
	thrice := retry.Config{MaxAttempts: 3, Backoff: backoff.None{}, Map: func(_ any, err error) (any, error) { return 3, nil }}
	p := core.Must(retry.New(twice))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := range 500 {
				_ = p.SetConfig([]retry.Config{twice, thrice}[n%2])
			}
		})
		wg.Go(func() {
			for range 500 {
				calls := 0
				got, err := retry.Do(t.Context(), p, func(context.Context) (int, error) { calls++; return 0, errBoom })
				if err != nil || got != calls {
					t.Errorf("%d attempts under a Config for %d, %v", calls, got, err)
				}
			}
		})
	}
	wg.Wait()
}
