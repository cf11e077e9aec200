package pace_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/pace"
	"github.com/gresil/gresil/stores/share"
)

var errDown = errors.New("down")

// A remote is a store that behaves as one in another process: it takes a time, can fail, and can
// lose its state.
type remote struct {
	ratelimit.Store
	takes atomic.Int64         // a duration
	lag   func() time.Duration // instead
	down  atomic.Bool
	calls atomic.Int64
}

func newRemote() *remote {
	return &remote{Store: &ratelimittest.Memory{}}
}

func (s *remote) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return &remoteTable{t, s}, err
}

// forget is a FLUSHALL.
func (s *remote) forget(t *testing.T, name, key string) {
	t.Helper()
	l := core.Must(ratelimit.New(ratelimit.Config{Name: name, Store: s.Store}))
	defer func() { _ = l.Close() }()
	require.NoError(t, l.Reset(t.Context(), key))
}

type remoteTable struct {
	limits.Table
	s *remote
}

func (t *remoteTable) Apply(ctx context.Context, key string, plan *limits.Plan, op limits.Op) (limits.Result, error) {
	if t.s.lag != nil {
		time.Sleep(t.s.lag())
		defer func() { time.Sleep(t.s.lag()) }()
	}
	time.Sleep(time.Duration(t.s.takes.Load()))
	t.s.calls.Add(1)
	if t.s.down.Load() {
		return limits.Result{}, errDown
	}
	return t.Table.Apply(ctx, key, plan, op)
}

// TestPacersOfSeveralProcessesShareTheRate: each has a pacer of its own, and one store.
func TestPacersOfSeveralProcessesShareTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start := newRemote(), time.Now()
		s.takes.Store(int64(3 * time.Millisecond))
		var v vendor
		var wg sync.WaitGroup
		var pacers []*pace.Pacer
		for range 4 {
			p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(100), Store: s})
			pacers = append(pacers, p)
			for range 250 {
				wg.Go(func() {
					_ = core.Must(p.Wait(t.Context(), "k", 1))
					time.Sleep(time.Duration(rand.Int64N(int64(slack))))
					v.call(1)
				})
			}
		}
		wg.Wait()
		require.EqualValues(t, 1000, v.total())
		require.LessOrEqual(t, v.most(time.Second), int64(100))
		require.Less(t, time.Since(start), 11*time.Second)
		for _, p := range pacers {
			require.Zero(t, p.Stats().Stale)
		}
		require.EqualValues(t, 1000, s.calls.Load(), "one round trip for each permit")
	})
}

// TestFewSlotsAreReservedAhead: a lost store, and other campaigns, cost at most these.
func TestFewSlotsAreReservedAhead(t *testing.T) {
	t.Parallel()
	for _, rate := range []int64{1, 10, 100, 1000, 10_000} {
		synctest.Test(t, func(t *testing.T) {
			s := newRemote()
			p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(rate), Store: s})
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for range 2000 {
				wg.Go(func() { _, _ = p.Wait(ctx, "k", 1) })
			}
			synctest.Wait()
			interval := 1050 * time.Millisecond / time.Duration(rate)
			require.LessOrEqual(t, s.calls.Load(), int64(3+25*time.Millisecond/interval))
			require.LessOrEqual(t, p.Snapshot().Keys[0].Ahead, 25*time.Millisecond+2*interval)
			cancel()
			wg.Wait()
		})
	}
}

// TestProcessesThatShareAKeyReserveLessAhead: together about as far as one, whatever their number.
func TestProcessesThatShareAKeyReserveLessAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		s.takes.Store(int64(time.Millisecond))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var pacers []*pace.Pacer
		for range 4 {
			p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(1000), Store: s})
			pacers = append(pacers, p)
			for range 2000 {
				wg.Go(func() { _, _ = p.Wait(ctx, "k", 1) })
			}
		}
		time.Sleep(3 * time.Second)
		for _, p := range pacers {
			require.LessOrEqual(t, p.Snapshot().Keys[0].Ahead, 40*time.Millisecond)
			require.LessOrEqual(t, p.Stats().Reserved, 12)
		}
		cancel()
		wg.Wait()
	})
}

// TestALostStateIsNotUsedBeforeItsSlotsAreOver: the store forgets its state while slots are reserved.
func TestALostStateIsNotUsedBeforeItsSlotsAreOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start := newRemote(), time.Now()
		p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(1), Store: s, MaxWait: time.Hour})
		for range 3 {
			_ = core.Must(p.Reserve(t.Context(), "k", 1))
		}
		s.forget(t, "vendor", "k")
		_, err := p.Reserve(t.Context(), "k", 1)
		var limited *pace.LimitedError
		require.ErrorAs(t, err, &limited)
		require.Equal(t, start.Add(2100*time.Millisecond), limited.At)
		permit := core.Must(p.Wait(t.Context(), "k", 1))
		require.Equal(t, start.Add(2100*time.Millisecond), permit.At)
		require.EqualValues(t, 2, p.Stats().Lost)
	})
}

// TestALostStateCostsLittle: several processes are busy when the store loses its state.
func TestALostStateCostsLittle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		s.takes.Store(int64(time.Millisecond))
		var v vendor
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 4 {
			p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(1000), Store: s})
			for range 100 {
				wg.Go(func() {
					for ctx.Err() == nil {
						if _, err := p.Wait(ctx, "k", 1); err == nil {
							v.call(1)
						}
					}
				})
			}
		}
		for range 10 {
			time.Sleep(1337 * time.Millisecond)
			s.forget(t, "vendor", "k")
		}
		cancel()
		wg.Wait()
		require.LessOrEqual(t, v.most(time.Second), int64(1000))
		require.Greater(t, v.total(), int64(11_500))
	})
}

func TestAFailingStoreRejectsCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		var failed, recovered, rejected atomic.Int64
		p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(100), Store: s, Hooks: pace.Hooks{
			StoreFailed:    func(_ context.Context, info pace.Info) { failed.Add(1); require.ErrorIs(t, info.Err, errDown) },
			StoreRecovered: func(context.Context, pace.Info) { recovered.Add(1) },
			Rejected:       func(_ context.Context, info pace.Info) { rejected.Add(1); require.ErrorIs(t, info.Err, pace.ErrStore) },
		}})
		s.down.Store(true)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				_, err := p.Wait(t.Context(), "k", 1)
				require.ErrorIs(t, err, errDown)
				require.ErrorIs(t, err, core.ErrRejected)
			})
		}
		wg.Wait()
		_, err := p.Reserve(t.Context(), "k", 1)
		require.ErrorIs(t, err, pace.ErrStore)
		require.Equal(t, "pace: vendor: store failed: down", err.Error())
		s.down.Store(false)
		_ = core.Must(p.Wait(t.Context(), "k", 1))
		require.Equal(t, []int64{101, 1, 101}, []int64{failed.Load(), recovered.Load(), rejected.Load()})
		require.EqualValues(t, 101, p.Stats().StoreErrors)
		require.Zero(t, p.Stats().Waiting+p.Stats().Reserved)
	})
}

func TestAFailingStoreAllowsCallsIfToldTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start := newRemote(), time.Now()
		p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(1), Store: s, OnStoreError: pace.Allow})
		s.down.Store(true)
		for range 100 {
			permit := core.Must(p.Wait(t.Context(), "k", 1))
			require.True(t, permit.NotAfter.IsZero())
			require.False(t, permit.Stale())
		}
		require.Equal(t, start, time.Now())
		s.down.Store(false)
		for range 2 {
			_ = core.Must(p.Wait(t.Context(), "k", 1))
		}
		require.Equal(t, 1050*time.Millisecond, time.Since(start))
	})
}

// TestAFailingStoreIsReplacedByAShare: four processes have a quarter each.
func TestAFailingStoreIsReplacedByAShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		s.down.Store(true)
		var v vendor
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 4 {
			shared := core.Must(share.New(s, share.Config{Instances: 4}))
			defer func() { _ = shared.Close() }()
			p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(100), Store: shared, OnStoreError: pace.Local})
			for range 10 {
				wg.Go(func() {
					for {
						if _, err := p.Wait(ctx, "k", 1); err != nil {
							return
						}
						v.call(1)
					}
				})
			}
		}
		wg.Wait()
		require.LessOrEqual(t, v.most(time.Second), int64(100))
		require.Greater(t, v.total(), int64(1500))
	})
}

// TestRepliesSlowerThanSlackAreAnError: each permit would be stale.
func TestRepliesSlowerThanSlackAreAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newRemote()
		p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(1000), Store: s})
		s.takes.Store(int64(slack + time.Millisecond))
		_, err := p.Wait(t.Context(), "k", 1)
		require.ErrorIs(t, err, pace.ErrStore)
		require.EqualError(t, err, "pace: vendor: store failed: its replies take 51ms, longer than Slack, 50ms")
		require.EqualValues(t, 5, s.calls.Load())
		s.takes.Store(int64(slack - time.Millisecond))
		_ = core.Must(p.Wait(t.Context(), "k", 1))
	})
}

// The process stands still between the slot and the call.
func TestASlowReplyBurnsThePermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start := newRemote(), time.Now()
		var stale []time.Duration
		p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(1), Store: s, Hooks: pace.Hooks{
			Stale: func(_ context.Context, info pace.Info) { stale = append(stale, info.Late) },
		}})
		s.takes.Store(int64(200 * time.Millisecond))
		time.AfterFunc(100*time.Millisecond, func() { s.takes.Store(int64(0)) })
		permit := core.Must(p.Wait(t.Context(), "k", 1))
		require.Equal(t, 1250*time.Millisecond, permit.At.Sub(start))
		require.Len(t, stale, 1)
		require.EqualValues(t, 1, p.Stats().Stale)
	})
}

// TestAnOutageIsReportedWithoutReportsOfCalls: by each failure and its end, which package logs thins out.
func TestAnOutageIsReportedWithoutReportsOfCalls(t *testing.T) {
	t.Parallel()
	for _, calls := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newRemote()
			r := &core.Registry{}
			p := newPacer(t, pace.Config{Name: "vendor", Rates: perSecond(1), Store: s, Registry: r})
			var texts []string
			defer instance.Inner(r).Events(calls, func(_ context.Context, step registry.Event) {
				if strings.HasPrefix(step.Text, "store") {
					texts = append(texts, fmt.Sprintf("%s, warn %t, call %t, outage %t", step.Text, step.Warn, step.Call, step.Outage))
				}
			})()
			failed := "store failed, warn true, call false, outage true"
			want := []string{failed, failed, "store has recovered, warn false, call false, outage true"}
			for range 2 {
				s.down.Store(true)
				for range 2 {
					_, err := p.Wait(t.Context(), "k", 1)
					require.ErrorIs(t, err, pace.ErrStore)
				}
				s.down.Store(false)
				_ = core.Must(p.Wait(t.Context(), "k", 1))
			}
			require.Equal(t, slices.Concat(want, want), texts)
		})
	}
}
