package dispatch_test

import (
	"context"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/dispatch"
)

type numbered = dispatch.Config[string, int]

func noop(context.Context, int) (int, error) { return 0, nil }

func TestTheLargestQueueIsNoError(t *testing.T) {
	t.Parallel()
	calls(t, newDispatcher(t, config{MaxQueue: math.MaxInt}), newScript(), "")
}

func TestACloseThatEndsItsGoroutineLosesNoPlace(t *testing.T) {
	t.Parallel()
	for name, idle := range map[string]bool{"after a panic": false, "idle ones": true, "another key": true, "SetConfig": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cfg := numbered{Capacity: 2, IdleTime: time.Second, Dial: func(context.Context, string) (int, error) { return 1, nil }, Close: func(string, int) { runtime.Goexit() }}
				d := core.Must(dispatch.New(cfg))
				for range 2 {
					go func() {
						defer func() { _ = recover() }()
						_, _ = dispatch.Do(t.Context(), d, "a", func(context.Context, int) (int, error) {
							time.Sleep(time.Nanosecond)
							if !idle {
								panic("x")
							}
							return 0, nil
						})
					}()
				}
				time.Sleep(2 * time.Nanosecond)
				switch name {
				case "idle ones":
					time.Sleep(time.Minute)
				case "another key":
					for range 2 {
						go func() { _, _ = dispatch.Do(t.Context(), d, "b", noop) }()
						synctest.Wait()
					}
					time.Sleep(time.Minute)
				case "SetConfig":
					cfg.Capacity, cfg.IdleTime = 1, -1
					go func() { _ = d.SetConfig(cfg) }()
					synctest.Wait()
					require.Equal(t, 1, d.Stats().Connections)
					return
				}
				synctest.Wait()
				require.Zero(t, d.Stats().Connections)
			})
		})
	}
}

func TestADialThatItsCallHasLeftKeepsItsPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dialing, most, closed := 0, 0, 0
		d := core.Must(dispatch.New(numbered{
			Capacity: 1, DialTimeout: 30 * time.Second,
			Dial: func(context.Context, string) (int, error) {
				dialing++
				most = max(most, dialing)
				time.Sleep(20 * time.Second)
				dialing--
				return 1, nil
			},
			Close: func(string, int) { closed++; runtime.Goexit() },
		}))
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := dispatch.Do(ctx, d, "", noop)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		synctest.Wait()
		require.Equal(t, 1, most)
		require.Equal(t, 1, d.Stats().Connections)
		time.Sleep(18 * time.Second)
		synctest.Wait()
		require.Zero(t, d.Stats().Connections)
		require.Equal(t, 1, closed)
	})
}

func TestADialThatItsCallHasLeftKeepsItsPlaceForItsTimeoutAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		d := core.Must(dispatch.New(numbered{Capacity: 1, DialTimeout: 30 * time.Second, Dial: func(_ context.Context, key string) (int, error) {
			if key == "h" {
				<-hang
			}
			return 1, nil
		}}))
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := dispatch.Do(ctx, d, "h", noop)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = dispatch.Do(t.Context(), d, "a", noop)
		require.NoError(t, err)
		require.Equal(t, 30*time.Second, time.Since(start))
		close(hang)
		synctest.Wait()
		require.Equal(t, 1, d.Stats().Connections, "the place is freed once")
	})
}

func TestACallOfDialIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d *dispatch.Dispatcher[string, int]
		d = core.Must(dispatch.New(numbered{Dial: func(ctx context.Context, _ string) (int, error) {
			return dispatch.Do(ctx, d, "b", noop)
		}}))
		_, err := dispatch.Do(t.Context(), d, "a", noop)
		require.EqualError(t, err, dispatch.ErrReentrant.Error())
	})
}
