package ratelimit_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
)

// mostIn returns how many permits one key is granted at most in any half-open interval of
// a length, if it takes a few permits first, then none, and then all it can get.
func mostIn(t *testing.T, limit ratelimit.Limit, length time.Duration, first int64, idle time.Duration) int64 {
	t.Helper()
	type grant struct {
		at time.Duration
		n  int64
	}
	l := core.Must(ratelimit.New(ratelimit.Config{Limit: limit}))
	time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))) // of Aligned
	start := time.Now()
	var grants []grant
	take := func(n int64) {
		r, err := l.TakeAtMost(t.Context(), "k", n)
		if err != nil {
			t.Fatal(err)
		}
		if r.Permits > 0 {
			grants = append(grants, grant{time.Since(start), r.Permits})
		}
	}
	if first > 0 {
		take(first)
	}
	time.Sleep(idle)
	for range 2 * time.Minute / (100 * time.Millisecond) {
		take(math.MaxInt32)
		time.Sleep(100 * time.Millisecond)
	}
	most := int64(0)
	for i := range grants {
		sum := int64(0)
		for _, g := range grants[i:] {
			if g.at >= grants[i].at+length {
				break
			}
			sum += g.n
		}
		most = max(most, sum)
	}
	return most
}

// The worst case of each algorithm at 60 a minute, found by search: the README and
// docs/guide/choosing-a-limiter.md state these.
func TestTheMostThatPassesInOnePeriod(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	for name, c := range map[string]struct {
		limit  ratelimit.Limit
		length time.Duration
		want   int64
	}{
		"fixed window":                   {ratelimit.FixedWindow(60, minute), minute, 2*60 - 1},
		"aligned window":                 {ratelimit.AlignedWindow(60, minute), minute, 2 * 60},
		"bucket":                         {ratelimit.TokenBucket(60, minute, 60), minute, 60 + 60 - 1},
		"bucket of burst 10":             {ratelimit.TokenBucket(60, minute, 10), minute, 10 + 60 - 1},
		"leaky bucket":                   {ratelimit.TokenBucket(60, minute, 60), minute, 60 + 60 - 1},
		"shaper":                         {ratelimit.TokenBucket(60, minute, 1), minute, 60},
		"sliding window":                 {ratelimit.SlidingWindow(60, minute, 6), minute, 2 * 60},
		"sliding window, less a segment": {ratelimit.SlidingWindow(60, minute, 6), minute - 10*time.Second, 60},
		"sliding counter":                {ratelimit.SlidingCounter(60, minute), minute, 2*60 - 2},
		"sliding log":                    {ratelimit.SlidingLog(60, minute), minute, 60},
		"window and log":                 {ratelimit.FixedWindow(60, minute).And(ratelimit.SlidingLog(60, minute)), minute, 60},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				most := int64(0)
				for _, first := range []int64{0, 1, 30} {
					for _, idle := range []time.Duration{0, 1, time.Second, 10*time.Second - 1, 30 * time.Second, 59 * time.Second, minute - time.Millisecond, minute - 1, minute, 2*minute - time.Millisecond, 2*minute - 1} {
						most = max(most, mostIn(t, c.limit, c.length, first, idle))
					}
				}
				require.Equal(t, c.want, most)
			})
		})
	}
}
