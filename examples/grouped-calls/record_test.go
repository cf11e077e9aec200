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

func TestOptionHasItsArguments(t *testing.T) {
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
