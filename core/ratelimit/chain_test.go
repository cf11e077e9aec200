package ratelimit_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/registry"
)

func TestAChainTakesOfAllOrOfNone(t *testing.T) {
	t.Parallel()
	store := func() *ratelimittest.Failing { return &ratelimittest.Failing{Store: openMemory(t)} }
	first := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(1)})
	second := newLimiter(t, ratelimit.Config{Limit: ratelimit.PerHour(1)})
	chain := ratelimit.Chain{{Limiter: first, Key: "k"}, {Limiter: second, Key: "k"}}

	require.True(t, take(t, second, "k", 1).Allowed)
	r, err := chain.Take(t.Context(), 1)
	require.NoError(t, err)
	require.False(t, r.Allowed)
	require.Equal(t, 1, r.Link)
	require.EqualValues(t, 1, mustPeek(t, first, "k").Remaining, "refused by the second: the first is no poorer")

	down := store()
	broken := newLimiter(t, ratelimit.Config{Store: down, OnStoreError: ratelimit.Deny})
	down.Down()
	_, err = ratelimit.Chain{{Limiter: first, Key: "k"}, {Limiter: broken}}.Take(t.Context(), 1)
	require.ErrorIs(t, err, ratelimittest.ErrDown)
	require.EqualValues(t, 1, mustPeek(t, first, "k").Remaining, "failed by the second: the first is no poorer")

	require.NoError(t, second.Reset(t.Context(), "k"))
	r, err = chain.Take(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, r.Allowed)
	require.NoError(t, chain.Refund(t.Context(), r))
	require.EqualValues(t, 1, mustPeek(t, first, "k").Remaining)
	require.EqualValues(t, 1, mustPeek(t, second, "k").Remaining)

	var stores []*ratelimittest.Failing
	var order []string
	var three ratelimit.Chain
	for i := range 3 {
		s := store()
		name := fmt.Sprint("limiter", i)
		stores = append(stores, s)
		three = append(three, ratelimit.Link{Limiter: newLimiter(t, ratelimit.Config{Name: name, Store: s, Registry: eventtest.Registry(func(_ context.Context, e registry.Event) {
			if e.Warn {
				order = append(order, name)
			}
		})})})
	}
	r, err = three.Take(t.Context(), 1)
	require.NoError(t, err)
	for _, s := range stores {
		s.Down()
	}
	err = three.Refund(t.Context(), r)
	var all interface{ Unwrap() []error }
	require.ErrorAs(t, err, &all)
	require.Len(t, all.Unwrap(), 3, "each failure is told")
	require.Equal(t, []string{"limiter2", "limiter1", "limiter0"}, order, "in reverse")
}

func TestTheLatestRetryAfterOfAChain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := []ratelimit.Limit{ratelimit.PerSecond(1), ratelimit.PerHour(1), ratelimit.PerMinute(1), ratelimit.PerHour(100)}
		var chain ratelimit.Chain
		for _, limit := range limits {
			chain = append(chain, ratelimit.Link{Limiter: newLimiter(t, ratelimit.Config{Limit: limit})})
		}
		r, err := chain.Take(t.Context(), 1)
		require.NoError(t, err)
		require.True(t, r.Allowed)
		require.Equal(t, 1, r.Link, "of those with least left, the one with the latest next permit")
		require.Equal(t, time.Hour, r.NextAfter)
		r, err = chain.Take(t.Context(), 1)
		require.NoError(t, err)
		require.False(t, r.Allowed)
		require.Equal(t, time.Hour, r.RetryAfter, "not that of the first")
		require.Equal(t, 1, r.Link)
		_, err = chain.Wait(t.Context(), 2)
		require.ErrorIs(t, err, ratelimit.ErrLimited)
		after, ok := core.RetryAfter(err)
		require.False(t, ok, "what never fits has none: %v", after)
	})
}

func TestTheErrorOfAChainHasTheLatestRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newLimiter(t, ratelimit.Config{Name: "a", Limit: ratelimit.PerMinute(1)})
		b := newLimiter(t, ratelimit.Config{Name: "b", Limit: ratelimit.PerHour(1)})
		chain := ratelimit.Chain{{Limiter: a}, {Limiter: b}}
		_, err := chain.Wait(t.Context(), 1)
		require.NoError(t, err)
		r, err := chain.Wait(t.Context(), 1)
		require.Equal(t, time.Hour, r.RetryAfter)
		var limited *ratelimit.LimitedError
		require.ErrorAs(t, err, &limited)
		require.Equal(t, "b", limited.Name)
		require.Equal(t, time.Hour, limited.RetryAfter())
	})
}
