package metrics_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/dispatch"
)

var errSlowDown = errors.New("slow down")

func TestDispatchSeries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		g := newGatherer(t, registry)
		d := core.Must(dispatch.New(dispatch.Config[string, int]{
			Name: "ads", Registry: registry, Capacity: 2, MaxQueue: -1, Attempts: 1, Pad: -1,
			Account: func(key string) string { return key },
			Classify: func(err error) (dispatch.Limited, bool) {
				return dispatch.Limited{RetryAfter: time.Minute, Scope: dispatch.ScopeAccount}, errors.Is(err, errSlowDown)
			},
			Hooks: dispatch.Hooks{Returned: func(context.Context, dispatch.Info) { panic("hook") }},
		}))
		before := samples(t, g, "dispatch_")
		require.Len(t, before, 20)
		for name, n := range before {
			if name != "dispatch_limit ads" {
				require.Zero(t, n, name)
			}
		}
		for _, err := range []error{nil, nil, nil, errDown, errSlowDown} {
			_, got := dispatch.Do(t.Context(), d, "k", func(context.Context, int) (int, error) { return 0, err })
			require.ErrorIs(t, got, err)
		}
		canceled, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := dispatch.Do(canceled, d, "k", func(context.Context, int) (int, error) { return 0, nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		release := make(chan struct{})
		for _, key := range []string{"a", "b"} {
			go func() {
				_, _ = dispatch.Do(t.Context(), d, key, func(context.Context, int) (int, error) { <-release; return 0, nil })
			}()
		}
		synctest.Wait()
		_, err = dispatch.Do(t.Context(), d, "c", func(context.Context, int) (int, error) { return 0, nil })
		require.ErrorIs(t, err, dispatch.ErrFull)
		got := samples(t, g, "dispatch_")
		for name, want := range map[string]float64{
			"dispatch_calls_total ads succeeded": 3, "dispatch_calls_total ads failed": 1, "dispatch_calls_total ads gave_up": 1,
			"dispatch_calls_total ads canceled": 1, "dispatch_calls_total ads rejected": 1,
			"dispatch_attempts_total ads": 5, "dispatch_limited_attempts_total ads": 1,
			"dispatch_cooldowns_total ads": 1, "dispatch_dials_total ads": 3, "dispatch_evicted_connections_total ads": 1,
			"dispatch_active ads": 2, "dispatch_waiting ads": 0, "dispatch_in_flight ads": 2, "dispatch_limit ads": 2,
			"dispatch_connections ads idle": 0, "dispatch_connections ads used": 2,
			"dispatch_held_scopes ads vendor": 0, "dispatch_held_scopes ads account": 1,
			"dispatch_cooldown_until_timestamp_seconds ads": 0,
		} {
			requireSample(t, want, got, name)
		}
		require.NotZero(t, d.Stats().HookPanics)
		close(release)
		require.NoError(t, d.Close(t.Context()))
		require.Empty(t, samples(t, g, "dispatch_"))
	})
}

func TestTheCooldownOfAVendorIsExportedWithItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		g := newGatherer(t, registry)
		d := core.Must(dispatch.New(dispatch.Config[string, int]{
			Name: "ads", Registry: registry, Attempts: 1, Pad: -1, Cooldown: time.Minute,
			Classify: func(err error) (dispatch.Limited, bool) { return dispatch.Limited{}, errors.Is(err, errSlowDown) },
		}))
		_, err := dispatch.Do(t.Context(), d, "k", func(context.Context, int) (int, error) { return 0, errSlowDown })
		require.ErrorIs(t, err, dispatch.ErrRateLimited)
		got := samples(t, g, "dispatch_")
		requireSample(t, 1, got, "dispatch_held_scopes ads vendor")
		requireSample(t, float64(time.Now().Add(time.Minute).UnixMilli())/1000, got, "dispatch_cooldown_until_timestamp_seconds ads")
		time.Sleep(time.Minute)
		got = samples(t, g, "dispatch_")
		requireSample(t, 0, got, "dispatch_held_scopes ads vendor")
		requireSample(t, 0, got, "dispatch_cooldown_until_timestamp_seconds ads")
		require.NoError(t, d.Close(t.Context()))
	})
}
