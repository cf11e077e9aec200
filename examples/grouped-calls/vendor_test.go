package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/examples/internal/demotest"
)

const pattern = "POST /merge"

// foreign returns a vendor that accepts all records.
func foreign() *demotest.Foreign {
	return &demotest.Foreign{Call: func(w http.ResponseWriter, _ *http.Request, _ int, body []byte) { accept(w, body) }}
}

func parsed(body []byte) (c call[map[string]any]) {
	_ = json.Unmarshal(body, &c) // a test looks at it
	return c
}

// accept answers that the records of a call are accepted.
func accept(w http.ResponseWriter, body []byte) { _, _ = w.Write(results(len(parsed(body).Records))) }

func results(n int) []byte {
	return fmt.Appendf(nil, `{"results":[%s]}`, strings.TrimSuffix(strings.Repeat(`{"ok":true},`, n), ","))
}

func TestVendorOverHTTP(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(newVendor(t.Context(), terms{MaxRecords: 2, CallsPerMinute: 10, Scale: 1}))
	t.Cleanup(srv.Close)
	merge := srv.URL + "/merge?method=merge"
	const missing = "an option, a record, the parameter method and the header Idempotency-Key must be given\n"
	for _, c := range []struct {
		url, key, body string
		status         int
		want           string
	}{
		{merge, "key", `{"option":"a","records":[{"n":1},{"n":2}]}`, 200, `{"results":[{"ok":true,"error":""},{"ok":true,"error":""}]}` + "\n"},
		{merge, "key", `{"option":"a","records":[1,2,3]}`, 400, "3 records: must be 2 at most\n"},
		{merge, "key", `{"option":"a","records":[]}`, 400, missing},
		{merge, "key", `{"option":"","records":[1]}`, 400, missing},
		{merge, "key", `{`, 400, "unexpected EOF\n"},
		{merge, "", `{"option":"a","records":[1]}`, 400, missing},
		{srv.URL + "/merge", "key", `{"option":"a","records":[1]}`, 400, missing},
		{merge, "key", `{"option":"b","records":[{"n":1}]}`, 200, `{"results":[{"ok":true,"error":""}]}` + "\n"},
		{merge, "key", `{"option":"b","records":[{"n":1}]}`, 200, `{"results":[{"ok":true,"error":""}]}` + "\n"},
		{merge, "key", `{"option":"b","records":[{"n":1}]}`, 200, `{"results":[{"ok":true,"error":""}]}` + "\n"},
		{merge, "key", `{"option":"b","records":[{"n":4}]}`, 429, "too many calls in a minute\n"}, // calls that were rejected count too
	} {
		resp, body := demotest.Request(t, http.MethodPost, c.url, http.Header{"Idempotency-Key": {c.key}}, c.body)
		require.Equal(t, c.status, resp.StatusCode, c)
		require.Equal(t, c.want, body)
		require.Empty(t, resp.Header.Get("Retry-After"))
	}
	_, body := demotest.Request(t, http.MethodGet, srv.URL+"/judge", http.Header{}, "")
	var v verdict
	require.NoError(t, json.Unmarshal([]byte(body), &v))
	v.Seconds, v.Stall, v.MostFixed = 0, 0, 0 // they depend on the time
	require.Equal(t, verdict{
		Verdict: demo.Verdict{Arrivals: 11, Unique: 2, Duplicates: 3, MostSliding: 11},
		Over:    1, TooBig: 1, Bad: 5, Calls: map[string]int{"a": 1, "b": 3}, Records: 5,
	}, v)
}
