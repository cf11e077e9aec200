package main

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/bench"
)

// TestMain lets the tests start callers, which are this program.
func TestMain(m *testing.M) {
	if told := os.Getenv(toldBy); told != "" {
		os.Exit(callerMain(told, os.Stdout, os.Stderr))
	}
	logging.Disable() // a green run prints results only
	os.Exit(m.Run())
}

func few() bench.RedisSizes { return bench.RedisSizes{Keys: 50, Load: 5 * time.Millisecond} }

func TestEveryRowDoesItsWork(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"-quick", "-json"}, &out, &errs, few()), errs.String())
	var rows []map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
	require.Len(t, rows, 6*2*4+2)
	names := map[any]bool{}
	for _, row := range rows {
		require.Len(t, row, 4)
		for _, field := range []string{"row", "ours", "floor", "redis_rate"} {
			require.Contains(t, row, field)
		}
		require.NotNil(t, row["ours"], row)
		require.NotNil(t, row["floor"], row)
		require.False(t, names[row["row"]], "two rows are named %v", row["row"])
		names[row["row"]] = true
	}
	for _, b := range bars() {
		require.True(t, names[b.row], b.row)
	}
}

func TestTableHasTheBars(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"-quick", "-row", "^token bucket, 10,000 keys, allowed"}, &out, &errs, few()), errs.String())
	require.Contains(t, out.String(), "| token bucket, 10,000 keys, allowed, strict [decisions/s] | ")
	require.Contains(t, out.String(), "| token bucket, 10,000 keys, allowed, strict | ≤ 1.2 × floor | ")
	require.NotContains(t, out.String(), "Cluster")
}

func TestCampaigns(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"-campaigns", "-json", "-calls", "8000"}, &out, &errs, few()), errs.String())
	var outcomes []outcome
	require.NoError(t, json.Unmarshal(out.Bytes(), &outcomes))
	require.Len(t, outcomes, len(ways()))
	for _, o := range outcomes {
		require.Equal(t, 8000, o.Calls)
		require.Empty(t, o.Problems, o.Way)
		require.GreaterOrEqual(t, o.Attempts, 1.0, o.Way)
		require.Positive(t, o.Arrived, o.Way)
	}
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-fast"}, "flag provided but not defined: -fast"},
		{[]string{"-row", "("}, "redis: -row: error parsing regexp"},
		{[]string{"-row", "no such row"}, "redis: -row \"no such row\": matches none"},
		{[]string{"-campaigns", "-row", "no such way"}, "redis: -row \"no such way\": matches none"},
		{[]string{"-campaigns", "-calls", "100"}, "redis: -calls 100: must be a multiple of 80"},
		{[]string{"strict"}, "redis: there are flags only, not \"strict\""},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, 2, run(tt.args, &out, &errs, few()), tt.args)
		require.Contains(t, errs.String(), tt.want)
		require.Empty(t, out.String())
	}
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"-h"}, &out, &errs, few()))
	require.Contains(t, errs.String(), "-row REGEXP")
}

// TestTheJudgeFindsWhatIsWrong: each case does one thing wrong; the first does nothing wrong.
func TestTheJudgeFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	window, bucket := ways()[0], ways()[1]
	const calls = 2 * limit
	for name, tt := range map[string]struct {
		way   way
		spoil func(all []arrival) []arrival
		want  string
	}{
		"nothing":             {window, func(all []arrival) []arrival { return all }, ""},
		"one call is lost":    {window, func(all []arrival) []arrival { return all[1:] }, "of 1000 calls 999 arrived"},
		"one comes twice":     {window, func(all []arrival) []arrival { all[0].call = all[1].call; return all }, "call 1 arrived twice"},
		"one second too full": {window, func(all []arrival) []arrival { all[limit].granted -= 3 * second; return all }, "501 were granted in second 7 of the server"},
		"one before its time": {window, func(all []arrival) []arrival { all[limit].at = all[limit].granted - 1; return all }, "arrived 1 µs before its time"},
		"a bucket in a burst": {bucket, func(all []arrival) []arrival { return all }, "passes burst + rate·t"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []arrival
			for k := range uint32(campaignCount) {
				for i := range calls {
					at := int64(7+3*(i/limit)) * second // at the beginning of a second, and three later
					all = append(all, arrival{campaign: k, call: uint32(i), granted: at, at: at + int64(i)})
				}
			}
			v := judge(tt.way, tt.spoil(all), calls)
			if tt.want == "" {
				require.Empty(t, v.problems)
				require.Equal(t, limit, *v.Granted)
				require.Equal(t, limit, v.ArrivedSliding)
				return
			}
			require.NotEmpty(t, v.problems)
			require.Contains(t, v.problems[0], tt.want)
		})
	}
}
