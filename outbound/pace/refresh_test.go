package pace_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/pace"
)

// TestRatesAreReadFromTheVendor: the first answer, a later one, an error, rates that are not valid.
func TestRatesAreReadFromTheVendor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p *pace.Pacer
		var read, failed []string
		answer, broken, calls := perSecond(10), error(nil), 0
		p = newPacer(t, pace.Config{
			Rates: perSecond(1), RefreshEvery: time.Minute,
			Refresh: func(ctx context.Context) ([]pace.Rate, error) {
				calls++
				_, limited := ctx.Deadline()
				require.True(t, limited)
				_, err := p.Wait(ctx, "the vendor's own call", 1) // it does not refresh
				require.NoError(t, err)
				return answer, broken
			},
			Hooks: pace.Hooks{
				Refreshed:     func(_ context.Context, info pace.Info) { read = append(read, info.Rates[0].Per.String()) },
				RefreshFailed: func(_ context.Context, info pace.Info) { failed = append(failed, info.Err.Error()) },
			},
		})
		ten := func() time.Duration {
			start := time.Now()
			for range 10 {
				_ = core.Must(p.Wait(t.Context(), "k", 1))
			}
			return time.Since(start).Round(100 * time.Millisecond)
		}
		require.Equal(t, 900*time.Millisecond, ten())
		require.Equal(t, 1, calls)
		answer = perSecond(100)
		time.Sleep(time.Minute)
		require.Equal(t, 100*time.Millisecond, ten())
		broken = errDown
		time.Sleep(time.Minute)
		require.Equal(t, 100*time.Millisecond, ten())
		broken, answer = nil, []pace.Rate{{Calls: -1, Per: time.Second}}
		time.Sleep(time.Minute)
		require.Equal(t, 100*time.Millisecond, ten())
		require.Equal(t, perSecond(100), p.Config().Rates)
		require.Equal(t, perSecond(100), p.Snapshot().Rates)
		require.Equal(t, []string{"1s", "1s"}, read)
		require.Equal(t, []string{"down", "pace.Config.Rates[0].Calls = -1: must be 1 to 1073741824"}, failed)
		require.Equal(t, 4, calls)
		s := p.Stats()
		require.Equal(t, []uint64{2, 2}, []uint64{s.Refreshed, s.RefreshFailed})
	})
}

// TestARefreshThatHangsLosesNoCall: it has half of the time that the call has.
func TestARefreshThatHangsLosesNoCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, start := newPacer(t, pace.Config{Rates: perSecond(100), Refresh: func(ctx context.Context) ([]pace.Rate, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}), time.Now()
		for range 30 { // the next Refresh is due a minute after the last one
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			_, err := p.Wait(ctx, "k", 1)
			require.NoError(t, err)
			cancel()
		}
		require.Less(t, time.Since(start), 3*time.Second)
		require.EqualValues(t, 1, p.Stats().RefreshFailed)
	})
}

// TestOneCallRefreshesAndOthersPass, and the end of its context is no failure.
func TestOneCallRefreshesAndOthersPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		p := newPacer(t, pace.Config{Rates: perSecond(1), Refresh: func(ctx context.Context) ([]pace.Rate, error) {
			calls++
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := p.Wait(ctx, "k", 1)
			require.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		start := time.Now()
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		require.Equal(t, start, time.Now())
		wg.Wait()
		require.Zero(t, p.Stats().RefreshFailed)
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		require.Equal(t, 11*time.Second, time.Since(start), "Refresh has 10 seconds")
		require.EqualValues(t, 1, p.Stats().RefreshFailed)
		require.Equal(t, 2, calls)
	})
}

func TestARefreshThatPanicsIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := true
		p := newPacer(t, pace.Config{Rates: perSecond(1), Refresh: func(context.Context) ([]pace.Rate, error) {
			if broken {
				panic("refresh")
			}
			return perSecond(5), nil
		}})
		require.Panics(t, func() { _, _ = p.Wait(t.Context(), "k", 1) })
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		broken = false
		time.Sleep(time.Minute)
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		require.Equal(t, perSecond(5), p.Config().Rates)
	})
}

// TestChangedRatesApplyAtOnce: a raise is felt with the next reservation, and no change grants more
// than the higher rate.
func TestChangedRatesApplyAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(1), Store: newRemote()})
		var v vendor
		var wg sync.WaitGroup
		for range 60 {
			wg.Go(func() {
				_ = core.Must(p.Wait(t.Context(), "k", 1))
				v.call(1)
			})
		}
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 10, v.total())
		require.NoError(t, p.SetRates(perSecond(20)...))
		time.Sleep(2 * time.Second)
		require.GreaterOrEqual(t, v.total(), int64(10+18))
		require.NoError(t, p.SetRates(perSecond(2)...))
		slow := v.total()
		time.Sleep(10 * time.Second)
		require.LessOrEqual(t, v.total(), slow+21)
		for i := range 100 { // a change of any kind refills nothing
			require.NoError(t, p.SetRates(perSecond(int64(2+i%2))...))
		}
		wg.Wait()
		require.LessOrEqual(t, v.most(time.Second), int64(20))
		require.Zero(t, p.Stats().Lost)
	})
}

func TestSetConfigKeepsWhatMustStay(t *testing.T) {
	t.Parallel()
	s := newRemote()
	p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(1), Store: s})
	for want, change := range map[string]func(*pace.Config){
		"pace.Config.Name = other: must stay vendor":                                                                    func(c *pace.Config) { c.Name = "other" },
		"pace.Config.Registry = another one: must stay the same":                                                        func(c *pace.Config) { c.Registry = &core.Registry{} },
		"pace.Config.Store = another one: must stay as it is":                                                           func(c *pace.Config) { c.Store = newRemote() },
		"pace.Config.Mode = sliding_log: must stay rolling":                                                             func(c *pace.Config) { c.Mode = pace.SlidingLog },
		"pace.Config.Rates = 0 rates: must be 1 to 4: the limits of the vendor":                                         func(c *pace.Config) { c.Rates = nil },
		"pace.Config.OnStoreError = local: must be Allow or Deny with this Store: wrap it in share.New of stores/share": func(c *pace.Config) { c.OnStoreError = pace.Local },
	} {
		cfg := p.Config()
		change(&cfg)
		require.EqualError(t, p.SetConfig(cfg), want)
		require.ErrorIs(t, p.SetConfig(cfg), core.ErrConfig)
		require.Equal(t, perSecond(1), p.Config().Rates)
	}
	require.NoError(t, p.SetConfig(pace.Config{Rates: perSecond(3), Store: s, MaxWait: time.Second, OnStoreError: pace.Allow}))
	require.Equal(t, "vendor", p.Config().Name)
	s.down.Store(true)
	_ = core.Must(p.Wait(t.Context(), "k", 1))
}
