package ratelimit_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

func TestLimitText(t *testing.T) {
	t.Parallel()
	second := ratelimit.PerSecond(10)
	for _, c := range []struct {
		text  string
		limit ratelimit.Limit
		other bool // the text is read, but not written
	}{
		{text: "100/1m", limit: ratelimit.PerMinute(100)},
		{text: "1000/24h aligned", limit: ratelimit.AlignedWindow(1000, 24*time.Hour)},
		{text: "10/1s burst 20", limit: ratelimit.TokenBucket(10, time.Second, 20)},
		{text: "sliding_window 100/1m segments 6", limit: ratelimit.SlidingWindow(100, time.Minute, 6)},
		{text: "sliding_counter 7/1h30m", limit: ratelimit.SlidingCounter(7, 90*time.Minute)},
		{text: "sliding_log 5/1.5s", limit: ratelimit.SlidingLog(5, 1500*time.Millisecond)},
		{text: "274877906944/43800h", limit: ratelimit.FixedWindow(ratelimit.MaxPermits, ratelimit.MaxPeriod)},
		{text: "10/1s and 1000/1h", limit: second.And(ratelimit.PerHour(1000))},
		{
			text:  "10/1s burst 20 and 10/1s and 9/10s",
			limit: ratelimit.TokenBucket(10, time.Second, 20).And(second).And(ratelimit.FixedWindow(9, 10*time.Second)),
		},
		{
			text: "1/1s and 2/2s and 3/3s and 4/4s",
			limit: ratelimit.PerSecond(1).And(ratelimit.FixedWindow(2, 2*time.Second)).
				And(ratelimit.FixedWindow(3, 3*time.Second).And(ratelimit.FixedWindow(4, 4*time.Second))),
		},
		{text: " 100/60s ", limit: ratelimit.PerMinute(100), other: true},
		{text: "10/1s  and\n\t1000/1h", limit: second.And(ratelimit.PerHour(1000)), other: true},
	} {
		var got ratelimit.Limit
		require.NoError(t, got.UnmarshalText([]byte(c.text)), c.text)
		require.True(t, c.limit == got, "%q: %v", c.text, got)
		if !c.other {
			text, err := c.limit.MarshalText()
			require.NoError(t, err)
			require.Equal(t, []string{c.text, c.text}, []string{c.limit.String(), string(text)})
		}
	}
	require.Equal(t, "1000/1m", ratelimit.Limit{}.String())
	require.Equal(t, "1000/1m and 5/1s", ratelimit.Limit{}.And(ratelimit.PerSecond(5)).String())
	require.Equal(t, "5/1s and 1000/1m", ratelimit.PerSecond(5).And(ratelimit.Limit{}).String())
}

func TestLimitTextRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "and", "100", "100/", "/1m", "100/1", "1e3/1m", "10.5/1m", "100/1m per", "100/1m and", "and 100/1m",
		"100/1m and and 5/1h", "100/1m burst", "100/1m burst x", "100/1m aligned aligned", "100/1m burst 5 burst 6", "sliding_log",
		"sliding_log sliding_log 5/1s", "default", "Sliding_Log 5/1s", "fixed_window 5/1s", "100/1m segments 6", "sliding_window 100/1m",
		"sliding_window 100/1m burst 6", "sliding_log 5/1s burst 6", "sliding_log 5/1s aligned",
		"sliding_window 100/1m segments 99999999999999999999", "10 per 1s", "99999999999999999999/1s",
		"0/0s", "0/1m", "10/-1s", "sliding_log 65537/1s", "1/1s and 2/1s", // of limits that cannot be
	} {
		got := ratelimit.PerHour(99)
		err := got.UnmarshalText([]byte(text))
		require.ErrorIs(t, err, core.ErrConfig, text)
		require.ErrorContains(t, err, "ratelimit.Limit = ", text)
		require.Equal(t, ratelimit.PerHour(99), got, text)
	}
}

func TestLimitRefused(t *testing.T) {
	t.Parallel()
	const permits, period = "must have 1 to 274877906944 permits", "must have a period of 1ns to 43800h0m0s"
	const burst = "must have a burst of 1 to 274877906944"
	const segments, fills = "must have 2 to 1000 segments, each of whole nanoseconds", "must have a burst that fills within 43800h0m0s"
	one, s := ratelimit.PerSecond(1), time.Second
	for _, c := range []struct {
		limit ratelimit.Limit
		want  string
	}{
		{ratelimit.PerMinute(0), permits},
		{ratelimit.PerMinute(math.MaxInt64), permits},
		{ratelimit.FixedWindow(0, 0), permits},
		{ratelimit.AlignedWindow(-1, 0), permits},
		{ratelimit.SlidingLog(1<<16+1, s), "must have 1 to 65536 permits"},
		{ratelimit.FixedWindow(1, 0), period},
		{ratelimit.SlidingCounter(1, math.MaxInt64), period},
		{ratelimit.TokenBucket(1, -1, 1), period},
		{ratelimit.TokenBucket(1, 1, 0), burst},
		{ratelimit.TokenBucket(1, 1, math.MaxInt64), burst},
		{ratelimit.TokenBucket(1, time.Hour, 1e9), fills},
		{ratelimit.TokenBucket(1, ratelimit.MaxPeriod, 1<<38), fills},
		{ratelimit.TokenBucket(1<<37+1, 97*time.Hour+7, 1<<37), "must have a burst that can be counted exactly"},
		{ratelimit.TokenBucket(1<<38-1, 1<<50, 1<<25), "must have a burst that can be counted exactly"},
		{ratelimit.TokenBucket(1<<37+1, 1<<50, 1<<22), "must have a burst that can be counted exactly"},
		{ratelimit.SlidingWindow(1, s, 1), segments},
		{ratelimit.SlidingWindow(1, time.Hour, 1001), segments},
		{ratelimit.SlidingWindow(1, s, 7), segments},
		{ratelimit.PerMinute(1).And(ratelimit.SlidingWindow(1, s, 7)), segments},
		{ratelimit.PerMinute(1).And(ratelimit.PerMinute(2)), "must join limits that differ in the algorithm or the period"},
		{ratelimit.SlidingWindow(1, s, 2).And(ratelimit.SlidingWindow(2, s, 4)), "must join limits that differ in the algorithm or the period"},
		{ratelimit.Limit{}.And(ratelimit.Limit{}), "must join limits that differ in the algorithm or the period"},
		{
			one.And(ratelimit.PerMinute(1)).And(ratelimit.PerHour(1)).And(ratelimit.SlidingLog(1, s)).And(ratelimit.SlidingCounter(1, s)),
			"must join at most 4 limits",
		},
	} {
		_, err := ratelimit.New(ratelimit.Config{Limit: c.limit})
		require.ErrorContains(t, err, "ratelimit.Config.Limit = "+c.limit.String()+": "+c.want)
		_, err = c.limit.MarshalText()
		require.ErrorIs(t, err, core.ErrConfig)
	}
}

func TestLimitInJSON(t *testing.T) {
	t.Parallel()
	type settings struct {
		Default ratelimit.Limit
		Gold    *ratelimit.Limit `json:"gold"`
		Tiers   map[string]ratelimit.Limit
	}
	joined := ratelimit.PerSecond(10).And(ratelimit.PerHour(1000))
	in := settings{joined, &joined, map[string]ratelimit.Limit{"a": joined}}
	text, err := json.Marshal(in)
	require.NoError(t, err)
	require.Equal(t, `{"Default":"10/1s and 1000/1h","gold":"10/1s and 1000/1h","Tiers":{"a":"10/1s and 1000/1h"}}`, string(text))
	var out settings
	require.NoError(t, json.Unmarshal(text, &out))
	require.Equal(t, in, out)
	for _, text := range []string{`{"Permits": 10}`, `10`, `[]`, `""`} {
		got := joined
		require.ErrorContains(t, json.Unmarshal([]byte(text), &got), "ratelimit.Limit", text)
		require.Equal(t, joined, got, text)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("limit", slog.Any("limit", joined))
	require.Contains(t, log.String(), `"limit":"10/1s and 1000/1h"`)
}

// randomLimit returns a limit of random numbers, which can be invalid.
func randomLimit(r *rand.Rand) ratelimit.Limit {
	longest := []time.Duration{1000, time.Second, time.Minute, ratelimit.MaxPeriod}[r.IntN(4)]
	n, period := 1+r.Int64N(1<<r.IntN(20)), time.Duration(1+r.Int64N(int64(longest)))
	l := []ratelimit.Limit{
		{},
		ratelimit.FixedWindow(n, period), ratelimit.AlignedWindow(n, period), ratelimit.TokenBucket(n, period, r.Int64N(3)*n),
		ratelimit.SlidingWindow(n, 5*period, r.IntN(3)*5), ratelimit.SlidingCounter(n, period), ratelimit.SlidingLog(n, period),
	}[r.IntN(7)]
	if r.IntN(3) == 0 {
		l = l.And(randomLimit(r))
	}
	return l
}

func TestLimitTextOfRandomLimits(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	valid := map[int]int{} // by how many are joined
	for range 2000 {
		l := randomLimit(r)
		text, err := l.MarshalText()
		if err != nil {
			require.Error(t, ratelimit.Config{Limit: l}.Validate())
			continue
		}
		require.NoError(t, ratelimit.Config{Limit: l}.Validate())
		var got ratelimit.Limit
		require.NoError(t, got.UnmarshalText(text), "%s", text)
		require.Equal(t, limits.Limit(l).Specs(), limits.Limit(got).Specs(), "%s", text)
		valid[len(limits.Limit(l).Specs())]++
	}
	require.Greater(t, valid[1], 700)
	require.Greater(t, valid[2], 100)
}

// mostIn returns how many permits one key is granted at most in any half-open interval of
// a length, if it takes a few permits first, then none, and then all it can get.
func mostIn(t *testing.T, limit ratelimit.Limit, length time.Duration, first int64, idle time.Duration) int64 {
	t.Helper()
	type grant struct {
		at time.Duration
		n  int64
	}
	l := core.Must(ratelimit.New(ratelimit.Config{Limit: limit, MaxKeys: 64})) // of many keys, the table takes longer to sweep
	time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))  // of Aligned
	start := time.Now()
	var grants []grant
	take := func(n int64, pause time.Duration) {
		if r := core.Must(l.TakeAtMost(t.Context(), "k", n)); r.Permits > 0 {
			grants = append(grants, grant{time.Since(start), r.Permits})
		}
		time.Sleep(pause)
	}
	take(first, idle)
	for range 2 * time.Minute / (100 * time.Millisecond) {
		take(math.MaxInt32, 100*time.Millisecond)
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
func TestMostPermitsInOnePeriod(t *testing.T) {
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
					for _, idle := range []time.Duration{
						0, 1, time.Second, 10*time.Second - 1, 30 * time.Second, 59 * time.Second, minute - time.Millisecond, minute - 1, minute,
						2*minute - time.Millisecond, 2*minute - 1,
					} {
						most = max(most, mostIn(t, c.limit, c.length, first, idle))
					}
				}
				require.Equal(t, c.want, most)
			})
		})
	}
}
