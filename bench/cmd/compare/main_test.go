package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/bench"
)

func few() bench.Sizes {
	return bench.Sizes{Many: 50, Million: 200, Upload: 1 << 20, Load: 10 * time.Millisecond}
}

func TestJSONHasTheFieldsOfEveryRow(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"-quick", "-json", "-row", "breaker: open|slow calls"}, &out, &errs, few()), errs.String())
	var rows []map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &rows))
	require.Len(t, rows, 3)
	for _, row := range rows {
		for _, field := range []string{"row", "ours_ns", "ours_allocs", "best_peer", "best_peer_ns", "best_peer_allocs", "floor_ns", "ratio"} {
			require.Contains(t, row, field)
		}
		delete(row, "disturbed") // on a busy machine
		require.Len(t, row, 8)
		require.Positive(t, row["ours_ns"])
	}
	require.Equal(t, "breaker: open", rows[0]["row"])
	require.Positive(t, rows[0]["ratio"])
	require.Equal(t, "breaker: count window and slow calls, closed", rows[2]["row"])
	require.Nil(t, rows[2]["ratio"])
}

// TestADisturbedRowIsMeasuredAgain: until it is calm, and at most three times.
func TestADisturbedRowIsMeasuredAgain(t *testing.T) {
	t.Parallel()
	for disturbed, want := range []int{1, 2, 3, 3, 3} {
		times := 0
		results, err := calm(func() ([]bench.Result, error) {
			times++
			return []bench.Result{{Row: "calm"}, {Row: "row", Disturbed: times <= disturbed}}, nil
		})
		require.NoError(t, err)
		require.Equal(t, want, times, "%d disturbed", disturbed)
		require.Equal(t, disturbed >= tries, results[1].Disturbed)
	}
	times := 0
	_, err := calm(func() ([]bench.Result, error) { times++; return nil, io.EOF })
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 1, times)
}

func TestTable(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"-quick", "-row", "^breaker: open$"}, &out, &errs, few()), errs.String())
	require.Contains(t, out.String(), "| breaker: open | ")
	require.Contains(t, out.String(), "* eapache: no window")
}

func TestQuickHasAtLeastFifteenRows(t *testing.T) {
	t.Parallel()
	rows, err := choose(bench.Rows(few()), "", true, nil)
	require.NoError(t, err)
	compared := 0
	for _, r := range rows {
		for _, s := range r.Subjects {
			if s.Role == bench.Ours {
				compared++
			}
		}
	}
	require.GreaterOrEqual(t, compared, 15)
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-fast"}, "flag provided but not defined: -fast"},
		{[]string{"-quick=maybe"}, "invalid boolean value"},
		{[]string{"-row"}, "flag needs an argument: -row"},
		{[]string{"-row", "("}, "compare: -row: error parsing regexp"},
		{[]string{"-row", "no such row"}, "compare: -row \"no such row\" matches none"},
		{[]string{"-quick", "-row", "loopback"}, "-quick leaves out some"},
		{[]string{"breaker"}, "compare: there are flags only, not \"breaker\""},
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
