package ratelimit_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
)

func TestLimitText(t *testing.T) {
	t.Parallel()
	for want, l := range map[string]ratelimit.Limit{
		"default":                                {},
		"100/1m":                                 ratelimit.PerMinute(100),
		"1000/24h aligned":                       {Permits: 1000, Period: 24 * time.Hour, Aligned: true},
		"10/1s burst 20":                         ratelimit.TokenBucket(10, time.Second, 20),
		"token_bucket 10/1s":                     ratelimit.TokenBucket(10, time.Second, 0),
		"sliding_window 100/1m":                  ratelimit.SlidingWindow(100, time.Minute, 0),
		"sliding_window 100/1m segments 6":       ratelimit.SlidingWindow(100, time.Minute, 6),
		"sliding_counter 7/1h30m":                ratelimit.SlidingCounter(7, 90*time.Minute),
		"sliding_log 5/1.5s":                     ratelimit.SlidingLog(5, 1500*time.Millisecond),
		"274877906944/43800h":                    ratelimit.FixedWindow(ratelimit.MaxPermits, ratelimit.MaxPeriod),
		"10/1s and 1000/1h":                      ratelimit.PerSecond(10).And(ratelimit.PerHour(1000)),
		"10/1s burst 20 and default and 5/1h":    ratelimit.TokenBucket(10, time.Second, 20).And(ratelimit.Limit{}).And(ratelimit.PerHour(5)),
		"default and sliding_log 5/1h":           ratelimit.Limit{}.And(ratelimit.SlidingLog(5, time.Hour)),
		"1/1s and 2/2s and 3/3s and 4/4s":        ratelimit.PerSecond(1).And(ratelimit.FixedWindow(2, 2*time.Second)).And(ratelimit.FixedWindow(3, 3*time.Second).And(ratelimit.FixedWindow(4, 4*time.Second))),
		"token_bucket 10/1s and 10/1s and 9/10s": ratelimit.TokenBucket(10, time.Second, 0).And(ratelimit.PerSecond(10)).And(ratelimit.FixedWindow(9, 10*time.Second)),
	} {
		require.Equal(t, want, l.String())
		text, err := l.MarshalText()
		require.NoError(t, err)
		require.Equal(t, want, string(text))
		got := ratelimit.PerHour(99)
		require.NoError(t, got.UnmarshalText(text), want)
		require.True(t, l == got, "%q: %v", want, got)
	}
}

func TestLimitTextInOtherForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ratelimit.Limit{
		" 100/60s ":                   ratelimit.PerMinute(100),
		"fixed_window 100/1m0s":       ratelimit.PerMinute(100),
		"token_bucket 10/1s burst 20": ratelimit.TokenBucket(10, time.Second, 20),
		"10/1s  and\n\t1000/1h":       ratelimit.PerSecond(10).And(ratelimit.PerHour(1000)),
	} {
		var got ratelimit.Limit
		require.NoError(t, got.UnmarshalText([]byte(text)), text)
		require.True(t, want == got, "%q: %v", text, got)
	}
}

func TestBadLimitText(t *testing.T) {
	t.Parallel()
	const form = `: must be as "100/1m", "1000/24h aligned", "10/1s burst 20", "sliding_window 100/1m segments 6", or several of these joined by "and"`
	for text, want := range map[string]string{
		"0/0s":                         "ratelimit.Limit.Permits = 0: must be 1 to 274877906944 (only the zero Limit means 1000)",
		"0/1m":                         "ratelimit.Limit.Permits = 0: must be 1 to 274877906944 (only the zero Limit means 1000)",
		"10/-1s":                       "ratelimit.Limit.Period = -1s: must be 1ns to 43800h0m0s (only the zero Limit means 1m0s)",
		"sliding_log 65537/1s":         "ratelimit.Limit.Permits = 65537: must be 1 to 65536 (only the zero Limit means 1000)",
		"sliding_log 5/1s burst 6":     "ratelimit.Limit.Burst = 6: must be 0 for a window, whose capacity is Permits",
		"fixed_window 5/1s segments 5": "ratelimit.Limit.Segments = 5: must be 0 but for a sliding window",
		"token_bucket 5/1s aligned":    "ratelimit.Limit.Aligned = true: must be false but for a fixed window",
		"1/1s and 2/1s":                "must differ from those it is joined to",
		"1/1s and 1/2s and 1/3s and 1/4s and 1/5s": "ratelimit.Limit = 5 limits: must be 4 or fewer joined by And",
		"": `ratelimit.Limit = ""` + form, "and": form, "100": form, "100/": form, "/1m": form, "100/1": form, "1e3/1m": form, "10.5/1m": form, "100/1m per": form,
		"100/1m and": form, "and 100/1m": form, "100/1m and and 5/1h": form, "100/1m burst": form, "100/1m burst x": form, "100/1m aligned aligned": form,
		"100/1m burst 5 burst 6": form, "Token_Bucket 10/1s": form, "sliding_log": form, "sliding_log sliding_log 5/1s": form, "default 5/1s": form,
		"Algorithm(7) 5/1s": form, "100/1m segments 99999999999999999999": form, "10 per 1s": form, "99999999999999999999/1s": form,
	} {
		got := ratelimit.PerHour(99)
		err := got.UnmarshalText([]byte(text))
		require.ErrorContains(t, err, want, text)
		require.ErrorIs(t, err, core.ErrConfig, text)
		require.Equal(t, ratelimit.PerHour(99), got, "%q: it stays as it is", text)
	}
	for _, l := range []ratelimit.Limit{{Algorithm: 77}, {Permits: -1}, ratelimit.FixedWindow(0, 0), ratelimit.Limit{}.And(ratelimit.Limit{}), {Permits: 1, Period: 1, Segments: 3}} {
		_, err := l.MarshalText()
		require.ErrorIs(t, err, core.ErrConfig, l)
	}
}

func TestLimitsInJSONAreTheirText(t *testing.T) {
	t.Parallel()
	type settings struct {
		Default ratelimit.Limit
		Gold    *ratelimit.Limit `json:"gold"`
		Tiers   map[string]ratelimit.Limit
		List    []ratelimit.Limit
	}
	joined := ratelimit.PerSecond(10).And(ratelimit.PerHour(1000))
	in := settings{joined, &joined, map[string]ratelimit.Limit{"a": joined}, []ratelimit.Limit{{}, joined}}
	text, err := json.Marshal(in)
	require.NoError(t, err)
	require.Equal(t, `{"Default":"10/1s and 1000/1h","gold":"10/1s and 1000/1h","Tiers":{"a":"10/1s and 1000/1h"},"List":["default","10/1s and 1000/1h"]}`, string(text))
	var out settings
	require.NoError(t, json.Unmarshal(text, &out))
	require.Equal(t, in, out)
	for _, text := range []string{`{"Permits": 10}`, `10`, `[]`, `""`, `"10 per 1s"`} {
		got := joined
		require.ErrorContains(t, json.Unmarshal([]byte(text), &got), "ratelimit.Limit", text)
		require.Equal(t, joined, got, text)
	}
	_, err = json.Marshal(settings{Gold: &ratelimit.Limit{Algorithm: 77}})
	require.ErrorContains(t, err, "Algorithm(77)")
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("limit", slog.Any("limit", joined))
	require.Contains(t, log.String(), `"limit":"10/1s and 1000/1h"`)
}

// randomLimit returns a limit with random fields, which can be invalid.
func randomLimit(r *rand.Rand) ratelimit.Limit {
	l := ratelimit.Limit{
		Algorithm: ratelimit.Algorithm(r.IntN(5)), Permits: 1 + r.Int64N(1<<r.IntN(20)),
		Period: time.Duration(1 + r.Int64N([]int64{1000, int64(time.Second), int64(time.Minute), int64(ratelimit.MaxPeriod)}[r.IntN(4)])),
	}
	switch l.Algorithm { //nolint:exhaustive // the others have no further fields
	case ratelimit.AlgorithmFixedWindow:
		l.Aligned = r.IntN(2) == 0
	case ratelimit.AlgorithmTokenBucket:
		l.Burst = r.Int64N(3) * l.Permits
	case ratelimit.AlgorithmSlidingWindow:
		if l.Segments = r.IntN(3) * 5; l.Segments == 0 {
			l.Period *= 10 // the default
		}
		l.Period *= time.Duration(max(1, l.Segments))
	}
	if r.IntN(20) == 0 {
		l = ratelimit.Limit{}
	}
	if r.IntN(3) == 0 {
		l = l.And(randomLimit(r))
	}
	return l
}

func TestEveryValidLimitSurvivesItsText(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	valid, joined := 0, 0
	seen := map[ratelimit.Algorithm]int{}
	for range 5_000 {
		l := randomLimit(r)
		text, err := l.MarshalText()
		require.Equal(t, l.Validate(), err)
		if err != nil {
			continue
		}
		var got, quoted ratelimit.Limit
		require.NoError(t, got.UnmarshalText(text), "%s", text)
		require.True(t, l == got, "%s", text)
		data, err := json.Marshal(l)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &quoted))
		require.True(t, l == quoted, "%s", data)
		valid++
		seen[l.Algorithm]++
		if len(l.All()) > 1 {
			joined++
		}
	}
	require.Greater(t, valid, 2500)
	require.Greater(t, joined, 250)
	for a := range ratelimit.AlgorithmSlidingLog + 1 {
		require.Greater(t, seen[a], 125, a)
	}
}

func FuzzLimitText(f *testing.F) {
	for _, text := range []string{"default", "100/1m", "1000/24h aligned", "10/1s burst 20", "token_bucket 10/1s", "sliding_window 100/1m segments 6", "sliding_log 5/1h and 1000/24h", "5/.5s", "0/0s", "and", "5/1h and"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		kept := ratelimit.PerHour(99)
		l := kept
		if err := l.UnmarshalText([]byte(text)); err != nil {
			require.ErrorIs(t, err, core.ErrConfig)
			require.Equal(t, kept, l)
			return
		}
		require.NoError(t, l.Validate())
		short, err := l.MarshalText()
		require.NoError(t, err)
		var got ratelimit.Limit
		require.NoError(t, got.UnmarshalText(short))
		require.True(t, l == got, "%q, %q", text, short)
	})
}

func TestNamesSurviveText(t *testing.T) {
	t.Parallel()
	for a := range ratelimit.AlgorithmSlidingLog + 1 {
		surviveText(t, a, new(ratelimit.Algorithm(99)))
	}
	for p := range ratelimit.Local + 1 {
		surviveText(t, p, new(ratelimit.FailurePolicy(99)))
	}
	for v, want := range map[encoding.TextMarshaler]string{
		ratelimit.Algorithm(5): "ratelimit.Algorithm = Algorithm(5): must be fixed_window, token_bucket, sliding_window, sliding_counter or sliding_log", ratelimit.FailurePolicy(3): "ratelimit.FailurePolicy = FailurePolicy(3): must be allow, deny or local",
	} {
		_, err := v.MarshalText()
		require.EqualError(t, err, want)
	}
	a, p := ratelimit.AlgorithmTokenBucket, ratelimit.Deny
	require.EqualError(t, a.UnmarshalText([]byte("Token_Bucket")), `ratelimit.Algorithm = "Token_Bucket": must be fixed_window, token_bucket, sliding_window, sliding_counter or sliding_log`)
	require.EqualError(t, p.UnmarshalText([]byte("")), `ratelimit.FailurePolicy = "": must be allow, deny or local`)
	require.Equal(t, []any{ratelimit.AlgorithmTokenBucket, ratelimit.Deny}, []any{a, p}, "they stay as they are")
}

// surviveText marshals v and reads it into got.
func surviveText[E interface {
	comparable
	encoding.TextMarshaler
	String() string
}, P interface {
	*E
	encoding.TextUnmarshaler
}](t *testing.T, v E, got P) {
	t.Helper()
	text, err := v.MarshalText()
	require.NoError(t, err)
	require.Equal(t, v.String(), string(text))
	require.False(t, strings.Contains(string(text), "("), "%s", text)
	require.NoError(t, got.UnmarshalText(text))
	require.Equal(t, v, *got)
}
