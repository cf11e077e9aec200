package redisstore

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/limitstore"
)

func TestStatsTellWhatCameOfEach(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		ctx := context.Background()
		srv := startServer(t)
		client := srv.client(t)
		s := newStore(t, client, Config{Mode: mode})
		table := open(t, s, "t")
		l := ratelimit.PerHour(10)
		id, err := table.Plan(limits.Limit(l).Specs())
		require.NoError(t, err)
		none := s.Stats()
		for bound, n := range none.RoundTripsWithin {
			require.Zero(t, n, bound)
		}
		none.RoundTripsWithin = nil
		require.Equal(t, limitstore.Stats{}, none)
		for range 12 { // refusals are decisions too
			take(t, table, "k", l, 1)
		}
		got := s.Stats()
		require.Positive(t, got.RoundTripTime)
		require.LessOrEqual(t, got.RoundTripTime, 12*patient)
		require.EqualValues(t, 12, got.RoundTrips)
		require.Len(t, got.RoundTripsWithin, 12)
		got.RoundTrips, got.RoundTripTime, got.RoundTripsWithin = 0, 0, nil
		require.Equal(t, limitstore.Stats{Decided: 12, Sent: 12}, got)

		resume := pause(t, client)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err = table.Apply(short, "k", id, limits.Op{Cost: 1})
		require.Error(t, err)
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		_, err = table.Apply(canceled, "k", id, limits.Op{Cost: 1})
		require.ErrorIs(t, err, context.Canceled)
		require.EqualValues(t, 1, s.Stats().Timeouts)
		resume()
		require.NoError(t, client.Do(ctx, "replicaof", "127.0.0.1", "1").Err())
		_, err = table.Apply(ctx, "new", id, limits.Op{Cost: 1})
		require.ErrorContains(t, err, "is a replica")
		require.EqualValues(t, 1, s.Stats().Failed)
		require.False(t, s.Stats().Unavailable)

		srv.Kill()
		for range 3 * failures {
			_, err = table.Apply(ctx, "k", id, limits.Op{Cost: 1})
			require.Error(t, err)
		}
		got = s.Stats()
		require.True(t, got.Unavailable)
		require.Positive(t, got.Unsent)
		require.EqualValues(t, 12+1+1+3*failures, got.Decided+got.Timeouts+got.Failed+got.Unsent, "each is counted once")
		require.NoError(t, srv.Restart())
		require.Eventually(t, func() bool {
			_, err := table.Apply(ctx, "k", id, limits.Op{Cost: 1})
			return err == nil
		}, patient, 10*time.Millisecond)
		require.Eventually(t, func() bool { return !s.Stats().Unavailable }, patient, time.Millisecond, "who asked is told first")
	})
}

func TestStatsTellHowManyGoTogether(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{Mode: Coalesced})
	table := open(t, s, "t")
	l := ratelimit.PerHour(1000)
	take(t, table, "k", l, 1)
	require.NoError(t, client.Do(ctx, "client", "pause", "2000").Err())
	var wg sync.WaitGroup
	for range 150 {
		wg.Go(func() { take(t, table, "k", l, 1) })
	}
	wg.Wait()
	got := s.Stats()
	require.EqualValues(t, 151, got.Decided)
	require.EqualValues(t, 151, got.Sent)
	require.LessOrEqual(t, got.RoundTrips, uint64(20))
	require.Less(t, got.RoundTripsWithin[250*time.Millisecond], got.RoundTrips, "one has waited for longer")
}

func TestAStoreIsInItsRegistry(t *testing.T) {
	t.Parallel()
	r := &core.Registry{}
	client := redis.NewClient(&redis.Options{})
	first, err := New(client, Config{Registry: r})
	require.NoError(t, err)
	got, _ := core.Lookup[*Store](r, "default")
	require.True(t, got == first)
	_, err = New(client, Config{Registry: r})
	require.ErrorContains(t, err, "already registered")
	got, _ = core.Lookup[*Store](r, "default")
	require.True(t, got == first)
	other, err := New(client, Config{Registry: r, Name: "other"})
	require.NoError(t, err)
	require.NoError(t, first.Close())
	require.NoError(t, first.Close())
	_, ok := core.Lookup[*Store](r, "default")
	require.False(t, ok)
	got, _ = core.Lookup[*Store](r, "other")
	require.True(t, got == other)
}

func TestLatenciesFallIntoTheirBounds(t *testing.T) {
	t.Parallel()
	s := &Store{}
	s.first = s.newNode(nil)
	total, within := time.Duration(0), map[time.Duration]uint64{}
	for i, bound := range bounds {
		s.counters.trip(1, bound)
		s.counters.trip(1, bound+1)
		within[bound] = uint64(2*i + 1)
		total += 2*bound + 1
	}
	got := s.Stats()
	require.Equal(t, within, got.RoundTripsWithin)
	require.EqualValues(t, 2*len(bounds), got.RoundTrips)
	require.Equal(t, total, got.RoundTripTime)
}

func TestAServerThatIsNotUsedIsNotUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Store{nodes: map[string]*node{}}
		s.first = s.newNode(nil)
		gone := s.newNode(nil)
		s.nodes["gone"] = gone
		time.Sleep(time.Hour)
		for range failures {
			trip, err := gone.admit(t.Context())
			require.NoError(t, err)
			trip.permit.Done(core.Failure)
		}
		require.True(t, s.Stats().Unavailable)
		time.Sleep(unused - 1)
		require.True(t, s.Stats().Unavailable)
		time.Sleep(time.Nanosecond)
		require.False(t, s.Stats().Unavailable, "a server of a Cluster that nobody asks")
		s.single = true
		require.True(t, s.Stats().Unavailable, "the only one")
	})
}

func TestADecisionIsCountedBeforeItsCallerReturns(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		s := newStore(t, startServer(t).client(t), Config{Mode: mode})
		table := open(t, s, "t")
		for i := range 1000 {
			take(t, table, "k", ratelimit.PerHour(10), 1)
			require.EqualValues(t, i+1, s.Stats().RoundTrips)
		}
	})
}
