package timeout_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/timeout"
)

func TestSetConfig(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var before, after []time.Duration
		hooks := func(told *[]time.Duration) timeout.Hooks {
			return timeout.Hooks{TimedOut: func(_ context.Context, info timeout.Info) { *told = append(*told, info.Limit) }}
		}
		cfg := timeout.Config{Name: "api", Registry: &core.Registry{}, Limit: time.Minute, Hooks: hooks(&before)}
		limit := core.Must(timeout.New(cfg))
		slow := func() {
			_, err := timeout.Do(t.Context(), limit, lasting(time.Hour, returnsErr))
			require.ErrorIs(t, err, timeout.ErrTimeout)
		}
		slow()
		ended := make(chan struct{})
		go func() { defer close(ended); slow() }()
		synctest.Wait()
		start := time.Now()
		// It may be one that others share.
		require.NoError(t, core.SetConfig(cfg.Registry, "timeout", "api", timeout.Config{Limit: time.Second, Hooks: hooks(&after)}))
		require.Equal(t, time.Second, limit.Limit())
		require.Equal(t, "api", limit.Config().Name)
		require.Same(t, cfg.Registry, limit.Config().Registry)
		slow()
		require.Equal(t, time.Second, time.Since(start))
		<-ended
		require.Equal(t, time.Minute, time.Since(start), "what runs has the limit that it began with")
		require.Equal(t, []time.Duration{time.Minute}, before)
		require.Equal(t, []time.Duration{time.Second, time.Minute}, after)
		require.EqualValues(t, 3, limit.Stats().TimedOut)

		err := limit.SetConfig(timeout.Config{Name: "other", Registry: &core.Registry{}, Limit: time.Hour})
		require.EqualError(t, err, "timeout.Config.Name = other: must stay api\ntimeout.Config.Registry = another one: must stay the same")
		require.ErrorIs(t, err, core.ErrConfig)
		require.Equal(t, time.Second, limit.Limit(), "the old one is kept")
		require.NoError(t, limit.Close())
		_, ok := cfg.Registry.Get("timeout", "api")
		require.False(t, ok)
		require.NoError(t, core.Must(timeout.New(timeout.Config{})).SetConfig(timeout.Config{Name: "default"}), "the same name")
	})
}

func TestSetConfigUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	limit := core.Must(timeout.New(timeout.Config{Limit: time.Hour}))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 500 {
				if err := limit.SetConfig(timeout.Config{Limit: time.Duration(i+1) * time.Hour}); err != nil {
					t.Error(err)
				}
				if n, err := timeout.Do(t.Context(), limit, func(context.Context) (int, error) { return i, nil }); n != i || err != nil {
					t.Error(n, err)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 2000, limit.Stats().Succeeded)
}
