package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/limitstore"
)

func TestStats(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		ctx := context.Background()
		srv := startServer(t)
		client := srv.client(t)
		s := newStore(t, client, Config{Mode: mode})
		table := open(t, s, "t")
		l := ratelimit.PerHour(10)
		id := planned(t, table, l)
		none := s.Stats()
		for bound, n := range none.RoundTripsWithin {
			require.Zero(t, n, bound)
		}
		none.RoundTripsWithin = nil
		require.Equal(t, limitstore.Stats{}, none)
		require.True(t, s.beat(ctx)) // which is no operation
		for range 12 {               // refusals are decisions too
			take(t, table, "k", l, 1)
		}
		got := s.Stats()
		require.Positive(t, got.RoundTripTime)
		require.LessOrEqual(t, got.RoundTripTime, 12*patient)
		want := limitstore.Stats{Decided: 12, Sent: 12}
		if mode == Lease { // from the ninth on two permits at once, and no more after a refusal
			want.Sent, want.Leased, want.Ahead = 10, 4, defaultMaxLease
		}
		require.Equal(t, want.Sent, got.RoundTrips)
		require.Len(t, got.RoundTripsWithin, 12)
		want.Instances = 1
		got.RoundTrips, got.RoundTripTime, got.RoundTripsWithin = 0, 0, nil
		require.Equal(t, want, got)

		resume := pause(t, client)
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err := table.Apply(short, "other", id, limits.Op{Cost: 1})
		require.Error(t, err)
		require.EqualValues(t, 1, s.Stats().Timeouts)
		resume()
		require.NoError(t, client.Do(ctx, "replicaof", "127.0.0.1", "1").Err())
		_, err = table.Apply(ctx, "new", id, limits.Op{Cost: 1})
		require.ErrorContains(t, err, "is a replica")
		require.EqualValues(t, 1, s.Stats().Failed)
		require.False(t, s.Stats().Unavailable)

		srv.Kill()
		for range 3 * failures {
			_, err = table.Apply(ctx, "other", id, limits.Op{Cost: 1})
			require.Error(t, err)
		}
		got = s.Stats()
		require.True(t, got.Unavailable)
		require.Positive(t, got.Unsent)
		require.EqualValues(t, 12+1+1+3*failures, got.Decided+got.Timeouts+got.Failed+got.Unsent, "each is counted once")
		require.NoError(t, srv.Restart())
		decides(t, table, "other", id)
		require.Eventually(t, func() bool { return !s.Stats().Unavailable }, patient, time.Millisecond, "who asked is told first")
	})
}

func TestStatsRoundTrips(t *testing.T) {
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
