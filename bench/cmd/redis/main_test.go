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

func TestMain(m *testing.M) {
	logging.Disable() // a green run prints results only
	os.Exit(m.Run())
}

func few() bench.RedisSizes {
	return bench.RedisSizes{Keys: 50, Samples: 1, Load: 5 * time.Millisecond}
}

func TestEveryRowDoesItsWork(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"-quick", "-json"}, &out, &errs, few()), errs.String())
	var rows []map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
	require.Len(t, rows, 14*2*4+2*3*4+2*2*4+2+4*2+1)
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
	require.Contains(t, out.String(), "| token bucket, 10,000 keys, allowed, strict | ≤ 0.8 × redis_rate | ")
	require.NotContains(t, out.String(), "Cluster")
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
