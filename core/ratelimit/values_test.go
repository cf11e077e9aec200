package ratelimit_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
)

// rows are values of which each first update is overtaken by another one.
type rows struct {
	mu    sync.Mutex
	byKey map[string]string
	keep  time.Duration // of the last update
}

func (r *rows) Update(_ context.Context, key string, f func(time.Time, []byte) ([]byte, time.Duration)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(time.Now(), []byte("overtaken"))
	var old []byte
	if value, ok := r.byKey[key]; ok {
		old = []byte(value)
	}
	next, keep := f(time.Now(), old)
	switch r.keep = keep; {
	case next == nil:
	case keep == 0:
		delete(r.byKey, key)
	default:
		r.byKey[key] = string(next)
	}
	return nil
}

func newRows() *rows { return &rows{byKey: map[string]string{}} }

// on is a limiter of one more process.
func (r *rows) on(tb testing.TB, name string, limit ratelimit.Limit) *ratelimit.Limiter {
	tb.Helper()
	return newLimiter(tb, ratelimit.Config{Name: name, Store: ratelimit.NewStore(r), Limit: limit, OnStoreError: ratelimit.Deny})
}

func TestValuesConform(t *testing.T) {
	t.Parallel()
	ratelimittest.Run(t, ratelimittest.Harness{
		Open: func(*testing.T) ratelimit.Store { return ratelimit.NewStore(newRows()) }, Bubble: synctest.Test,
	})
}

// Two processes share values; the second one knows nothing of the limits of the first.
func TestValuesOfTwoProcesses(t *testing.T) {
	t.Parallel()
	for _, limit := range append(every(10, time.Hour), ratelimit.SlidingCounter(10, time.Hour).And(ratelimit.AlignedWindow(30, time.Hour))) {
		synctest.Test(t, func(t *testing.T) {
			values := newRows()
			require.EqualValues(t, 6, take(t, values.on(t, "api", limit), "k", 4).Remaining)
			require.EqualValues(t, 1, take(t, values.on(t, "api", limit), "k", 5).Remaining, limit)
			require.EqualValues(t, 3, mustPeek(t, values.on(t, "api", ratelimit.FixedWindow(12, 2*time.Hour)), "k").Remaining)
			take(t, values.on(t, "api", limit), "x:k", 4)
			require.EqualValues(t, 10, mustPeek(t, values.on(t, "api:x", limit), "k").Remaining)
		})
	}
}

func TestValuesKeepTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		values := newRows()
		l := values.on(t, "api", ratelimit.TokenBucket(1, time.Minute, 10))
		first := take(t, l, "k", 3)
		require.Equal(t, 3*time.Minute, values.keep)
		before := values.byKey["3:api:k"]
		require.NotEmpty(t, before)
		require.False(t, take(t, l, "k", 8).Allowed)
		require.Equal(t, before, values.byKey["3:api:k"])
		require.NoError(t, l.Refund(t.Context(), first))
		require.Empty(t, values.byKey)
	})
}

// A value that cannot be read is an error of the store, until it is gone.
func TestValuesUnreadable(t *testing.T) {
	t.Parallel()
	values, key := newRows(), "6:broken:k"
	l := values.on(t, "broken", ratelimit.Limit{})
	broken := []string{"5", `{"At":1,"Counts":[{"Limit":{"Algorithm":9}}]}`, `{"At":1,"Counts":[{"Limit":{"Algorithm":2,"Permits":1,"Period":1,"Segments":0}}]}`}
	for _, state := range []string{"[1]", "[3,1,1,1]", "[-2,1]", "[6,1,1,1]"} {
		for _, algorithm := range []string{"3", "4"} {
			broken = append(broken, `{"At":1,"Counts":[{"Limit":{"Algorithm":`+algorithm+`,"Permits":1,"Period":1},"State":{"List":`+state+`}}]}`)
		}
	}
	for _, value := range broken {
		values.byKey[key] = value
		_, err := l.Take(t.Context(), "k", 1)
		require.ErrorIs(t, err, ratelimit.ErrStore, value)
	}
	delete(values.byKey, key)
	require.True(t, take(t, l, "k", 1).Allowed)
}
