package pace_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/outbound/pace"
)

func TestAConfigThatCannotBeUsedIsReported(t *testing.T) {
	t.Parallel()
	ok := pace.Rate{Calls: 10, Per: time.Second}
	for _, c := range []struct {
		cfg  pace.Config
		want string
	}{
		{pace.Config{}, "pace.Config.Rates = 0 rates: must be 1 to 4: the limits of the vendor"},
		{pace.Config{Rates: []pace.Rate{ok, {1, time.Minute, 0}, {1, time.Hour, 0}, {1, 2 * time.Hour, 0}, {1, 3 * time.Hour, 0}}}, "pace.Config.Rates = 5 rates: must be 1 to 4: the limits of the vendor"},
		{pace.Config{Rates: []pace.Rate{{0, time.Second, 0}}}, "pace.Config.Rates[0].Calls = 0: must be 1 to 1073741824"},
		{pace.Config{Rates: []pace.Rate{{-5, time.Second, 0}}}, "pace.Config.Rates[0].Calls = -5: must be 1 to 1073741824"},
		{pace.Config{Rates: []pace.Rate{{math.MaxInt64, time.Second, 0}}}, "pace.Config.Rates[0].Calls = 9223372036854775807: must be 1 to 1073741824"},
		{pace.Config{Rates: []pace.Rate{{1 << 17, time.Second, 0}}, Mode: pace.SlidingLog}, "pace.Config.Rates[0].Calls = 131072: must be 1 to 65536"},
		{pace.Config{Rates: []pace.Rate{ok, {10, 0, 0}}}, "pace.Config.Rates[1].Per = 0s: must be 1ms to 744h0m0s"},
		{pace.Config{Rates: []pace.Rate{{10, -time.Second, 0}}}, "pace.Config.Rates[0].Per = -1s: must be 1ms to 744h0m0s"},
		{pace.Config{Rates: []pace.Rate{{10, math.MaxInt64, 0}}}, "pace.Config.Rates[0].Per = 2562047h47m16.854775807s: must be 1ms to 744h0m0s"},
		{pace.Config{Rates: []pace.Rate{ok, {20, time.Second, 0}}}, "pace.Config.Rates[1].Per = 1s: must differ from that of the other rates: keep the lower one"},
		{pace.Config{Rates: []pace.Rate{{10, time.Second, -1}}}, "pace.Config.Rates[0].Burst = -1: must be 0 to Calls (0 means 1)"},
		{pace.Config{Rates: []pace.Rate{{10, time.Second, 11}}}, "pace.Config.Rates[0].Burst = 11: must be 0 to Calls (0 means 1)"},
		{pace.Config{Rates: []pace.Rate{{10, time.Second, 2}}, Mode: pace.FixedWindow}, "pace.Config.Rates[0].Burst = 2: must be 0 unless the Mode is Rolling"},
		{pace.Config{Rates: []pace.Rate{{1, 3 * time.Second, 0}, {1, 2 * time.Second, 0}}, Mode: pace.FixedWindow}, "pace.Config.Rates[0].Per = 3s: must be a multiple of each shorter one, with FixedWindow"},
		{pace.Config{Rates: []pace.Rate{{1 << 30, 744 * time.Hour, 1 << 30}}}, "pace.Config.Rates[0].Burst = 1073741824: must be lower: at this rate it fills in more than 5 years"},
		{pace.Config{Rates: []pace.Rate{{10, 50 * time.Millisecond, 0}}}, "pace.Config.Slack = 50ms: must be below Per, 50ms"},
		{pace.Config{Rates: []pace.Rate{ok}, Slack: time.Second}, "pace.Config.Slack = 1s: must be below Per, 1s"},
		{pace.Config{Rates: []pace.Rate{ok}, Slack: -1}, "pace.Config.Slack = -1ns: must be >= 0 (0 means 50ms)"},
		{pace.Config{Rates: []pace.Rate{ok}, Skew: -1}, "pace.Config.Skew = -1ns: must be >= 0"},
		{pace.Config{Rates: []pace.Rate{ok}, Skew: 475 * time.Millisecond}, "pace.Config.Skew = 475ms: must be below half of Per less Slack, 475ms"},
		{pace.Config{Rates: []pace.Rate{ok}, Skew: math.MaxInt64}, "pace.Config.Skew = 2562047h47m16.854775807s: must be below half of Per less Slack, 475ms"},
		{pace.Config{Rates: []pace.Rate{ok}, Mode: 3}, "pace.Config.Mode = Mode(3): must be Rolling, FixedWindow or SlidingLog"},
		{pace.Config{Rates: []pace.Rate{ok}, OnStoreError: 3}, "pace.Config.OnStoreError = FailurePolicy(3): must be Deny, Local or Allow"},
		{pace.Config{Rates: []pace.Rate{ok}, OnStoreError: pace.Local}, "pace.Config.OnStoreError = local: must be Deny or Allow without a Store: memory does not fail"},
		{pace.Config{Name: "a", Rates: []pace.Rate{ok}, OnStoreError: pace.Local, Store: newRemote()}, "pace.Config.OnStoreError = local: must be Allow or Deny with this Store: wrap it in share.New of stores/share"},
		{pace.Config{Rates: []pace.Rate{ok}, Store: (*process)(nil)}, "pace.Config.Store = a nil pointer: must be a store, or nil for slots in memory"},
		{pace.Config{Rates: []pace.Rate{ok}, MaxWait: -1}, "pace.Config.MaxWait = -1ns: must be >= 0 (0 means no limit)"},
		{pace.Config{Rates: []pace.Rate{ok}, RefreshEvery: -1}, "pace.Config.RefreshEvery = -1ns: must be >= 0 (0 means 1m0s)"},
	} {
		_, err := pace.New(c.cfg)
		require.ErrorIs(t, err, core.ErrConfig, c.want)
		require.EqualError(t, err, c.want)
	}
	_, err := pace.New(pace.Config{Slack: -1, Skew: -1, Mode: 7, MaxWait: -1})
	require.Equal(t, 5, len(strings.Split(err.Error(), "\n")), err)
}

// TestExtremeConfigsWork: the largest and smallest values that Validate accepts.
func TestExtremeConfigsWork(t *testing.T) {
	t.Parallel()
	const month = 31 * 24 * time.Hour
	for _, cfg := range []pace.Config{
		{Rates: []pace.Rate{{1 << 30, time.Millisecond, 0}}, Slack: time.Nanosecond},
		{Rates: []pace.Rate{{1 << 30, time.Millisecond, 1 << 30}}, Slack: time.Nanosecond},
		{Rates: []pace.Rate{{1, month, 0}}},
		{Rates: []pace.Rate{{1 << 30, month, 0}}, Slack: month - 3, Skew: 1},
		{Rates: []pace.Rate{{50, month, 50}}},
		{Rates: []pace.Rate{{1, time.Millisecond, 0}, {7, 11 * time.Millisecond, 3}, {1 << 29, time.Hour, 5}, {1 << 30, month, 7}}, Slack: time.Microsecond},
		{Rates: []pace.Rate{{1 << 16, month, 0}}, Mode: pace.SlidingLog},
		{Rates: []pace.Rate{{1 << 30, time.Millisecond, 0}, {1 << 30, month, 0}}, Mode: pace.FixedWindow, Slack: 1},
	} {
		p := newPacer(t, cfg)
		permit, err := p.Wait(t.Context(), "k", 1)
		require.NoError(t, err, cfg)
		require.False(t, permit.At.IsZero())
	}
}

func TestACostThatIsNotPossibleIsReported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  pace.Config
		cost int64
		want string
	}{
		{pace.Config{Rates: perSecond(10)}, 2, "pace cost = 2: must be 1 to 1, the smallest Burst of the Rates, which can be set higher"},
		{pace.Config{Rates: perSecond(10)}, 0, "pace cost = 0: must be 1 to 1, the smallest Burst of the Rates, which can be set higher"},
		{pace.Config{Rates: perSecond(10)}, -1, "pace cost = -1: must be 1 to 1, the smallest Burst of the Rates, which can be set higher"},
		{pace.Config{Rates: []pace.Rate{{10, time.Second, 5}}}, math.MaxInt64, "pace cost = 9223372036854775807: must be 1 to 5, the smallest Burst of the Rates, which can be set higher"},
		{pace.Config{Rates: perSecond(10), Mode: pace.SlidingLog}, 11, "pace cost = 11: must be 1 to 10, the Calls of the lowest rate"},
		{pace.Config{Rates: perSecond(10), Mode: pace.FixedWindow}, 11, "pace cost = 11: must be 1 to 10, the Calls of the lowest rate"},
	} {
		p := newPacer(t, c.cfg)
		for _, get := range []func(context.Context, string, int64) (pace.Permit, error){p.Wait, p.Reserve} {
			_, err := get(t.Context(), "k", c.cost)
			require.ErrorIs(t, err, core.ErrConfig)
			require.EqualError(t, err, c.want)
		}
		require.EqualValues(t, 2, p.Stats().Rejected)
	}
}

func TestACallThatWouldWaitTooLongIsRejectedAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		max, deadline time.Duration
	}{
		"MaxWait":         {5 * time.Second, 0},
		"deadline":        {0, 5 * time.Second},
		"both":            {5 * time.Second, time.Hour},
		"the other first": {time.Hour, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var rejected []pace.Info
				p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(1), MaxWait: c.max, Hooks: pace.Hooks{Rejected: func(_ context.Context, info pace.Info) { rejected = append(rejected, info) }}})
				ctx := t.Context()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				var wg sync.WaitGroup
				start := time.Now()
				for range 5 { // the slots at 0, 1.05 and so on
					wg.Go(func() { _ = core.Must(p.Wait(ctx, "k", 1)) })
					synctest.Wait()
				}
				_, err := p.Wait(ctx, "k", 1)
				require.Equal(t, start, time.Now())
				require.ErrorIs(t, err, pace.ErrLimited)
				require.ErrorIs(t, err, core.ErrRejected)
				var limited *pace.LimitedError
				require.ErrorAs(t, err, &limited)
				require.Equal(t, start.Add(5250*time.Millisecond), limited.At)
				after, _ := core.RetryAfter(err)
				require.Equal(t, 5250*time.Millisecond, after)
				require.EqualError(t, err, "pace: vendor: limited, the next permit is in 5.25s or later")
				require.Len(t, rejected, 1)
				require.Equal(t, "vendor", rejected[0].Name)
				wg.Wait()
				require.Equal(t, 4200*time.Millisecond, time.Since(start))
				require.EqualValues(t, 5, p.Stats().Permits)
			})
		})
	}
}

// TestAWaitEndsAtMaxWait: calls of other sub-keys, which came later, are served before it.
func TestAWaitEndsAtMaxWait(t *testing.T) {
	t.Parallel()
	type sub struct{}
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Rates: perSecond(1), MaxWait: 3300 * time.Millisecond, Fair: func(ctx context.Context) string { s, _ := ctx.Value(sub{}).(string); return s }})
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		var wg sync.WaitGroup
		start := time.Now()
		for _, one := range []string{"a", "a", "a", "b", "c"} { // at 1.05, 2.1, never, 3.15, 4.2
			if one == "b" {
				time.Sleep(time.Second)
			}
			late := one == "a" && p.Stats().Waiting == 1
			wg.Go(func() {
				_, err := p.Wait(context.WithValue(t.Context(), sub{}, one), "k", 1)
				if !late {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, pace.ErrLimited)
				require.Equal(t, 3300*time.Millisecond, time.Since(start))
			})
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, 4200*time.Millisecond, time.Since(start))
		require.EqualValues(t, 1, p.Stats().Rejected)
	})
}

// TestALongQueueOfLongWaits: the estimate of the last call is beyond the range of a duration.
func TestALongQueueOfLongWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Rates: []pace.Rate{{1, 31 * 24 * time.Hour, 0}}})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 5000 {
			wg.Go(func() { _, _ = p.Wait(ctx, "k", 1) })
		}
		synctest.Wait()
		brief, end := context.WithTimeout(t.Context(), 1000*24*time.Hour)
		defer end()
		_, err := p.Wait(brief, "k", 1)
		require.ErrorIs(t, err, pace.ErrLimited)
		after, _ := core.RetryAfter(err)
		require.Greater(t, after, 250*365*24*time.Hour)
		cancel()
		wg.Wait()
	})
}

func TestReserveReturnsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, start := newPacer(t, pace.Config{Rates: perSecond(1), MaxWait: 3 * time.Second}), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for i := range 3 {
			require.Equal(t, time.Duration(i)*1050*time.Millisecond, core.Must(p.Reserve(ctx, "k", 1)).At.Sub(start))
		}
		_, err := p.Reserve(ctx, "k", 1)
		var limited *pace.LimitedError
		require.ErrorAs(t, err, &limited)
		require.Equal(t, 3150*time.Millisecond, limited.At.Sub(start))
		require.Equal(t, start, time.Now())
	})
}

func TestAFullQueueRejects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Rates: perSecond(10), MaxQueue: 5})
		var wg sync.WaitGroup
		for range 7 { // one whose slot is now, one with a ticket, five in the queue
			wg.Go(func() { _ = core.Must(p.Wait(t.Context(), "k", 1)) })
			synctest.Wait()
		}
		require.Equal(t, 5, p.Stats().Waiting)
		_, err := p.Wait(t.Context(), "k", 1)
		require.ErrorIs(t, err, pace.ErrFull)
		require.ErrorIs(t, err, core.ErrRejected)
		_ = core.Must(p.Wait(t.Context(), "other", 1))
		wg.Wait()
		none := newPacer(t, pace.Config{Rates: perSecond(10), MaxQueue: -1})
		for range 2 {
			wg.Go(func() { _ = core.Must(none.Wait(t.Context(), "k", 1)) })
			synctest.Wait()
		}
		_, err = none.Wait(t.Context(), "k", 1)
		require.ErrorIs(t, err, pace.ErrFull)
		wg.Wait()
	})
}

func TestCloseEndsEveryWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		p := newPacer(t, pace.Config{Name: "vendor", Registry: registry, Rates: perSecond(1)})
		has, _ := core.Lookup[*pace.Pacer](registry, "vendor")
		require.Same(t, p, has)
		_, err := pace.New(pace.Config{Name: "vendor", Registry: registry, Rates: perSecond(1)})
		require.ErrorContains(t, err, "vendor")
		var wg sync.WaitGroup
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		for range 10 {
			wg.Go(func() {
				_, err := p.Wait(t.Context(), "k", 1)
				require.ErrorIs(t, err, pace.ErrClosed)
				require.ErrorIs(t, err, core.ErrRejected)
				_, ok := core.RetryAfter(err)
				require.False(t, ok)
			})
		}
		synctest.Wait()
		start := time.Now()
		require.NoError(t, p.Close())
		require.NoError(t, p.Close())
		wg.Wait()
		require.Equal(t, start, time.Now())
		for _, get := range []func(context.Context, string, int64) (pace.Permit, error){p.Wait, p.Reserve} {
			_, err := get(t.Context(), "other", 1)
			require.ErrorIs(t, err, pace.ErrClosed)
		}
		_, ok := core.Lookup[*pace.Pacer](registry, "vendor")
		require.False(t, ok)
		require.Zero(t, p.Stats().Waiting+p.Stats().Reserved)
	})
}

func TestAContextThatHasEndedTakesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Rates: perSecond(1)})
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		cancel(gone)
		_, err := p.Wait(ctx, "k", 1)
		require.ErrorIs(t, err, gone)
		_, err = p.Reserve(ctx, "k", 1)
		require.ErrorIs(t, err, gone)
		start := time.Now()
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		require.Equal(t, start, time.Now())
	})
}

// TestTenThousandCallsOnOneProcessor: all are served, in time.
func TestTenThousandCallsOnOneProcessor(t *testing.T) { //nolint:paralleltest // GOMAXPROCS is for the process
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		p, start := newPacer(t, pace.Config{Rates: perSecond(1000)}), time.Now()
		var v vendor
		var wg sync.WaitGroup
		for range 10_000 {
			wg.Go(func() {
				_ = core.Must(p.Wait(t.Context(), "k", 1))
				v.call(1)
			})
		}
		wg.Wait()
		require.EqualValues(t, 10_000, v.total())
		require.LessOrEqual(t, v.most(time.Second), int64(1000))
		require.Less(t, time.Since(start), 10_510*time.Millisecond)
	})
}

// TestACanceledCampaignIsCheap: 10,000 calls leave, and the next call does not wait for them.
func TestACanceledCampaignIsCheap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(10), Store: s})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 10_000 {
			wg.Go(func() { _, _ = p.Wait(ctx, "k", 1) })
		}
		time.Sleep(time.Second)
		cancel()
		wg.Wait()
		require.LessOrEqual(t, s.calls.Load(), int64(12))
		start := time.Now()
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		require.LessOrEqual(t, time.Since(start), 210*time.Millisecond)
	})
}

func TestAnyTextIsAKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, start := newPacer(t, pace.Config{Rates: perSecond(1)}), time.Now()
		for _, key := range []string{"", "\x00", "{a}", "a\xff", strings.Repeat("k", 1<<16), "日本"} {
			_ = core.Must(p.Wait(t.Context(), key, 1))
		}
		require.Equal(t, start, time.Now())
		require.Empty(t, p.Snapshot().Keys)
	})
}

func TestPanicsLoseNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Rates: perSecond(1), Fair: func(context.Context) string { panic("fair") }, Hooks: pace.Hooks{
			Waited: func(context.Context, pace.Info) { panic("hook") }, Rejected: func(context.Context, pace.Info) { panic("hook") },
		}})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { _ = core.Must(p.Wait(t.Context(), "k", 1)) })
			synctest.Wait()
		}
		require.PanicsWithValue(t, "fair", func() { _, _ = p.Wait(t.Context(), "k", 1) })
		wg.Wait()
		require.EqualValues(t, 1, p.Stats().HookPanics)
		require.Panics(t, func() {
			_, _ = pace.Do(t.Context(), p, "other", 1, func(context.Context) (int, error) { panic("call") })
		})
		require.Zero(t, p.Stats().Waiting+p.Stats().Reserved)
		_ = core.Must(p.Wait(t.Context(), "k", 1))
	})
}

func TestDoCallsWithAPermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, start := newPacer(t, pace.Config{Rates: perSecond(1), MaxWait: 2 * time.Second}), time.Now()
		for i := range 3 {
			n, err := pace.Do(t.Context(), p, "k", 1, func(context.Context) (int, error) { return i, errDown })
			require.Equal(t, i, n)
			require.ErrorIs(t, err, errDown)
		}
		require.Equal(t, 2100*time.Millisecond, time.Since(start))
		_, _ = p.Reserve(t.Context(), "k", 1)
		_, err := pace.Do(t.Context(), p, "k", 1, func(context.Context) (int, error) { panic("called") })
		require.ErrorIs(t, err, pace.ErrLimited)
	})
}

func TestAPermitAllocatesNothing(t *testing.T) { //nolint:paralleltest // allocations are counted
	p := newPacer(t, pace.Config{Rates: []pace.Rate{{1 << 30, time.Second, 1 << 20}}, Refresh: func(context.Context) ([]pace.Rate, error) { return []pace.Rate{{1 << 30, time.Second, 1 << 20}}, nil }})
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		_ = core.Must(p.Reserve(t.Context(), "k", 1))
	}))
	require.Zero(t, p.Stats().Waited)
}

func TestSnapshotsShowTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(1)})
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { _ = core.Must(p.Wait(t.Context(), "k", 1)) })
			synctest.Wait()
		}
		s := p.Snapshot()
		require.Equal(t, pace.Snapshot{
			Name: "vendor", Rates: perSecond(1), Stats: pace.Stats{Permits: 1, Waiting: 3, Reserved: 1},
			Keys: []pace.Key{{Key: "k", Waiting: 3, Reserved: 1, Ahead: 1050 * time.Millisecond}},
		}, s)
		wg.Wait()
		require.Equal(t, pace.Stats{Permits: 5, Waited: 4}, p.Stats())
		require.Empty(t, p.Snapshot().Keys)
	})
}

// TestKeysAreForgotten: a call to each of many keys leaves nothing.
func TestKeysAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(1), Store: newRemote()})
		for i := range 10_000 {
			for range 2 {
				_ = core.Must(p.Reserve(t.Context(), strings.Repeat("k", i%100)+string(rune('a'+i/100)), 1))
			}
			time.Sleep(time.Millisecond)
		}
		require.Less(t, p.Lanes(), 3000)
		require.Greater(t, p.Lanes(), 1000, "their slots lie ahead")
		time.Sleep(time.Hour)
		require.Empty(t, p.Snapshot().Keys)
		require.Zero(t, p.Lanes())
	})
}

var _ ratelimit.Store = (*remote)(nil)

// TestRatesWithOneSpacingAreOne: a call that would wait too long is rejected at once, as with one rate.
func TestRatesWithOneSpacingAreOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Rates: []pace.Rate{{Calls: 21, Per: time.Second}, {Calls: 41, Per: 2 * time.Second}}, MaxWait: time.Second})
		start := time.Now()
		var rejected atomic.Int64
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, err := p.Wait(t.Context(), "k", 1); err != nil {
					require.ErrorIs(t, err, pace.ErrLimited)
					require.Equal(t, start, time.Now())
					rejected.Add(1)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, time.Second, time.Since(start))
		require.EqualValues(t, 100-21, rejected.Load())
	})
}
