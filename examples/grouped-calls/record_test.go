package main

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachRecordIsDistinct(t *testing.T) {
	t.Parallel()
	seen, options := map[string]bool{}, map[string]int{}
	for n := range 100 {
		r := newRecord("run", n, 8)
		text, err := json.Marshal(r)
		require.NoError(t, err)
		seen[string(text)] = true
		options[r.option]++
	}
	require.Len(t, seen, 100)
	require.Len(t, options, 8)
	require.Equal(t, 13, options["list-1:upsert"])
	require.Equal(t, 12, options["list-2:replace"])
}

func TestAnOptionHasItsArguments(t *testing.T) {
	t.Parallel()
	c := catalog(8)
	require.Len(t, c, 8)
	query, err := url.ParseQuery(c["list-2:insert"])
	require.NoError(t, err)
	require.Equal(t, url.Values{
		"method": {"merge"}, "list": {"list-2"}, "match": {"email"}, "insert_on_no_match": {"true"}, "update_on_match": {"none"},
	}, query)
	require.Equal(t, "true", predefined["insert"].Get("insert_on_no_match"))
	require.False(t, predefined["insert"].Has("list"), "it is not changed")
}

// TestWorkersDealRecords: each record belongs to one worker, and each worker has records of each option.
func TestWorkersDealRecords(t *testing.T) {
	t.Parallel()
	owners := map[int]int{}
	for worker := range 2 {
		options := map[int]int{}
		o := order{Options: 4, Records: 26, Workers: 2, Worker: worker}
		require.NoError(t, o.numbers(func(n int) error {
			owners[n]++
			options[n%4]++
			return nil
		}))
		require.Len(t, options, 4)
	}
	require.Len(t, owners, 26)
	for n, times := range owners {
		require.Equal(t, 1, times, n)
	}
}
