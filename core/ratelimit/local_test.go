package ratelimit_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/registry"
)

// A sharing store has tables that can decide without it: half of each limit of one algorithm.
type sharing struct{ *ratelimittest.Failing }

type sharingTable struct {
	limits.Table
	share sharedTable
}

type sharedTable struct {
	limits.Table
	halves map[*limits.Plan]*limits.Plan
}

func (s sharing) Open(name string) (limits.Table, error) {
	table, err := s.Failing.Open(name)
	if err != nil {
		return nil, err
	}
	own, err := core.Must(ratelimit.NewMemory(0)).Open(name)
	return &sharingTable{table, sharedTable{own, map[*limits.Plan]*limits.Plan{}}}, err
}

func (t *sharingTable) Plan(limits []limits.Spec) (*limits.Plan, error) {
	half := slices.Clone(limits)
	half[0].Permits /= 2
	plan, err := t.Table.Plan(limits)
	if err == nil {
		t.share.halves[plan], err = t.share.Plan(half)
	}
	return plan, err
}

func (t *sharingTable) Local() limits.Table { return t.share }

func (t sharedTable) Apply(ctx context.Context, key string, plan *limits.Plan, op limits.Op) (ratelimit.Result, error) {
	if op.Kind == limits.Refund {
		return ratelimit.Result{}, ratelimittest.ErrDown
	}
	return t.Table.Apply(ctx, key, t.halves[plan], op)
}

func TestLocalDecidesWhileTheStoreCannot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := sharing{&ratelimittest.Failing{Store: openMemory(t)}}
		failed, allowed := 0, 0
		l := newLimiter(t, ratelimit.Config{Store: store, Limit: ratelimit.PerHour(10), Registry: eventtest.Registry(func(_ context.Context, e registry.Event) {
			switch {
			case e.Warn:
				failed++
			case e.Text == "permits granted":
				allowed++
			}
		})})
		remote := take(t, l, "k", 1)
		require.EqualValues(t, 9, remote.Remaining)
		store.Down()
		require.Equal(t, ratelimit.Result{Allowed: true}, take(t, l, "k", 1))
		cfg := l.Config()
		cfg.OnStoreError = ratelimit.Local
		require.NoError(t, l.SetConfig(cfg))
		r := take(t, l, "k", 2)
		require.True(t, r.Allowed)
		require.EqualValues(t, 5, r.Limit)
		require.EqualValues(t, 3, r.Remaining)
		require.False(t, take(t, l, "k", 4).Allowed)
		require.Equal(t, limits.Never, take(t, l, "k", 6).RetryAfter, "a share has a capacity of its own")
		r, err := l.Peek(t.Context(), "k")
		require.NoError(t, err)
		require.EqualValues(t, 3, r.Remaining)
		_, err = l.Wait(t.Context(), "k", 3)
		require.NoError(t, err)
		_, err = l.Wait(t.Context(), "k", 1)
		require.ErrorIs(t, err, ratelimit.ErrLimited)
		err = l.Refund(t.Context(), remote)
		require.ErrorIs(t, err, ratelimit.ErrStore)
		require.Equal(t, 8, failed)
		require.EqualValues(t, 8, l.Stats().StoreErrors)
		require.Equal(t, 3, allowed)
		require.EqualValues(t, 3, l.Stats().Rejected)
		store.Up()
		require.EqualValues(t, 8, take(t, l, "k", 1).Remaining)
	})
}

func TestLocalNeedsAStoreThatCan(t *testing.T) {
	t.Parallel()
	store := &ratelimittest.Failing{Store: openMemory(t)}
	cfg := ratelimit.Config{Name: "l", Store: store, OnStoreError: ratelimit.Local}
	require.NoError(t, cfg.Validate())
	_, err := ratelimit.New(cfg)
	var bad *core.ConfigError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "ratelimit.Config.OnStoreError", bad.Field)
	require.Equal(t, ratelimit.Local, bad.Value)
	require.ErrorContains(t, err, "must be Allow or Deny with this Store: wrap it in share.New of stores/share")

	l := newLimiter(t, ratelimit.Config{Store: store})
	cfg.Limit = ratelimit.PerHour(1)
	require.ErrorAs(t, l.SetConfig(cfg), &bad)
	require.Equal(t, ratelimit.PerMinute(1000), l.Limit(), "nothing changed")

	for _, memory := range []ratelimit.Store{nil, openMemory(t)} {
		l := newLimiter(t, ratelimit.Config{Store: memory, OnStoreError: ratelimit.Local, Limit: ratelimit.PerHour(1)})
		require.True(t, take(t, l, "k", 1).Allowed)
		require.False(t, take(t, l, "k", 1).Allowed)
	}
}

func TestOweRaisesAndNeverForgives(t *testing.T) {
	t.Parallel()
	const period = time.Hour
	for name, limit := range map[string]ratelimit.Limit{
		"window":  ratelimit.FixedWindow(10, period),
		"aligned": ratelimit.AlignedWindow(10, period),
		"bucket":  ratelimit.TokenBucket(10, period, 10),
		"sliding": ratelimit.SlidingWindow(10, period, 10),
		"counter": ratelimit.SlidingCounter(10, period),
		"log":     ratelimit.SlidingLog(10, period),
		"several": ratelimit.FixedWindow(10, period).And(ratelimit.SlidingLog(10, period)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				table, err := openMemory(t).Open("owe")
				require.NoError(t, err)
				id, err := table.Plan(limits.Limit(limit).Specs())
				require.NoError(t, err)
				owe := table.(interface {
					Owe(key string, id *limits.Plan, permits int64, until time.Time) error
				}).Owe
				peek := func() ratelimit.Result {
					t.Helper()
					r, err := table.Apply(t.Context(), "k", id, limits.Op{})
					require.NoError(t, err)
					return r
				}
				life := period
				if name == "counter" {
					life *= 2
				}
				require.NoError(t, owe("k", id, 6, time.Now()))
				require.EqualValues(t, 10, peek().Remaining, "it is over")
				until := time.Now().Add(life * 6 / 10)
				if name == "counter" {
					until = time.Now().Add(life)
				}
				require.NoError(t, owe("k", id, 6, until))
				r := peek()
				require.EqualValues(t, 4, r.Remaining)
				if name != "aligned" {
					require.InDelta(t, time.Until(until), r.FullAfter, float64(time.Millisecond))
				}
				require.NoError(t, owe("k", id, 2, time.Now().Add(life*2/10)))
				require.Equal(t, r, peek(), "it owes more already")
				taken, err := table.Apply(t.Context(), "k", id, limits.Op{Cost: 4})
				require.NoError(t, err)
				require.True(t, taken.Allowed)
				require.NoError(t, owe("k", id, 6, until))
				require.Zero(t, peek().Remaining)
				time.Sleep(2 * life)
				require.EqualValues(t, 10, peek().Remaining)
				require.ErrorIs(t, owe("k", id, -1, until), core.ErrConfig)
			})
		})
	}
}
