package ratelimit_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

func TestASimpleLimitSurvivesJSON(t *testing.T) {
	t.Parallel()
	type settings struct {
		Default ratelimit.Limit
		Gold    *ratelimit.Limit `json:"gold"`
		Tiers   map[string]ratelimit.Limit
		List    []ratelimit.Limit
	}
	for _, l := range []ratelimit.Limit{
		{},
		ratelimit.PerSecond(5), ratelimit.FixedWindow(ratelimit.MaxPermits, ratelimit.MaxPeriod), ratelimit.AlignedWindow(3, 24*time.Hour), ratelimit.TokenBucket(10, time.Second, 20),
		ratelimit.TokenBucket(10, time.Second, 0), ratelimit.SlidingWindow(6, time.Minute, 6), ratelimit.SlidingCounter(7, time.Hour), ratelimit.SlidingLog(8, time.Hour),
		{Permits: -1, Burst: -2},
	} {
		text, err := json.Marshal(l)
		require.NoError(t, err)
		got := ratelimit.PerHour(99)
		require.NoError(t, json.Unmarshal(text, &got), "%s", text)
		require.Equal(t, l, got, "%s", text)

		in := settings{l, &l, map[string]ratelimit.Limit{"a": l}, []ratelimit.Limit{l, ratelimit.PerSecond(1)}}
		text, err = json.Marshal(in)
		require.NoError(t, err)
		var out settings
		require.NoError(t, json.Unmarshal(text, &out), "%s", text)
		require.Equal(t, in, out)
	}
	got := ratelimit.PerHour(99)
	require.NoError(t, json.Unmarshal([]byte(`{"permits": 5, "period": 1000000000}`), &got))
	require.Equal(t, ratelimit.PerSecond(5), got, "a field that is missing is zero")
	require.NoError(t, json.Unmarshal([]byte("null"), &got))
	require.Equal(t, ratelimit.PerSecond(5), got, "as null is for all types")
}

func TestALimitThatJSONWouldLoseIsRefused(t *testing.T) {
	t.Parallel()
	joined := ratelimit.PerSecond(10).And(ratelimit.PerHour(1000))
	for want, l := range map[string]ratelimit.Limit{
		"joined by And":            joined,
		"Algorithm(77) has no":     {Algorithm: 77},
		"Limit joined by And has ": ratelimit.Limit{}.And(ratelimit.Limit{}),
	} {
		for _, in := range []any{l, &l, []ratelimit.Limit{l}, struct{ Limit ratelimit.Limit }{l}, map[string]any{"limit": l}} {
			text, err := json.Marshal(in)
			require.ErrorContains(t, err, want, "%s", text)
		}
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("limit", slog.Any("limit", joined))
	require.Contains(t, log.String(), "joined by And", "the log says that it has no JSON form")
}

func TestReadingALimitFromJSONLosesNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"Permits": 10, "Period": 1000, "Also": {"Permits": 5}}`,
		`{"Permits": 10.5}`, `{"Permits": 1e30}`, `{"Algorithm": "leaky"}`, `{"Algorithm": "Algorithm(7)"}`, `{"Permits": "10"}`, `[]`, `[{"Permits": 10}]`, `"10 per 1s"`, `10`, `{"Period": "1s"}`,
	} {
		l := ratelimit.PerHour(99)
		err := json.Unmarshal([]byte(text), &l)
		require.Error(t, err, text)
		require.True(t, strings.Contains(err.Error(), "ratelimit"), "%s: %v", text, err)
		require.Equal(t, ratelimit.PerHour(99), l, "%s: it stays as it is", text)
	}
}

func TestAlgorithmsSurviveText(t *testing.T) {
	t.Parallel()
	for _, a := range []ratelimit.Algorithm{ratelimit.AlgorithmFixedWindow, ratelimit.AlgorithmTokenBucket, ratelimit.AlgorithmSlidingWindow, ratelimit.AlgorithmSlidingCounter, ratelimit.AlgorithmSlidingLog} {
		text, err := a.MarshalText()
		require.NoError(t, err)
		got := ratelimit.Algorithm(99)
		require.NoError(t, got.UnmarshalText(text))
		require.Equal(t, a, got)
	}
	got := ratelimit.AlgorithmTokenBucket
	require.ErrorContains(t, got.UnmarshalText([]byte("Token_Bucket")), `"Token_Bucket" is no Algorithm`)
	require.Equal(t, ratelimit.AlgorithmTokenBucket, got)
}
