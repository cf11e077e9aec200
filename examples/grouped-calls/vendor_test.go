package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/program"
	"github.com/gresil/gresil/examples/internal/programtest"
)

func TestTheVendorOverHTTP(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(newVendor(newLedger(10, time.Hour), 2, &program.Stall{}))
	t.Cleanup(srv.Close)
	key := http.Header{"Idempotency-Key": {"key"}}
	merge := srv.URL + "/merge?method=merge"
	resp, body := programtest.Request(t, http.MethodPost, merge, key, `{"option":"a","records":[{"n":1},{"n":2}]}`)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.JSONEq(t, `{"results":[{"ok":true,"error":""},{"ok":true,"error":""}]}`, body)
	for _, c := range [][4]string{
		{merge, "key", `{"option":"a","records":[1,2,3]}`, "3 records: must be 2 at most\n"},
		{merge, "key", `{"option":"a","records":[]}`, "there must be an option and a record at least\n"},
		{merge, "key", `{"option":"","records":[1]}`, "there must be an option and a record at least\n"},
		{merge, "key", `{`, "unexpected EOF\n"},
		{merge, "", `{"option":"a","records":[1]}`, "the parameter method and the header Idempotency-Key must be given\n"},
		{srv.URL + "/merge", "key", `{"option":"a","records":[1]}`, "the parameter method and the header Idempotency-Key must be given\n"},
	} {
		resp, body = programtest.Request(t, http.MethodPost, c[0], http.Header{"Idempotency-Key": {c[1]}}, c[2])
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, c)
		require.Equal(t, c[3], body)
	}
	for range 3 {
		resp, _ = programtest.Request(t, http.MethodPost, merge, key, `{"option":"b","records":[{"n":1}]}`)
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	resp, _ = programtest.Request(t, http.MethodPost, merge, key, `{"option":"b","records":[{"n":4}]}`)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode, "calls that were rejected count too")
	require.Empty(t, resp.Header.Get("Retry-After"))
	resp, _ = programtest.Request(t, http.MethodGet, merge, key, "")
	require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
	resp, body = programtest.Request(t, http.MethodGet, srv.URL+"/judge", http.Header{}, "")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	var v verdict
	require.NoError(t, json.Unmarshal([]byte(body), &v))
	v.Seconds = 0
	require.Equal(t, verdict{
		Arrivals: 11, Over: 1, TooBig: 1, Bad: 5, Calls: map[string]int{"a": 1, "b": 3}, Records: 5, Unique: 2, Duplicates: 3,
		MostSliding: 11, MostFixed: 11,
	}, v)
}

// A foreign vendor is not ours.
type foreign struct {
	merge, judge http.HandlerFunc

	mu   sync.Mutex
	seen []seen
}

// seen is a call that arrived.
type seen struct {
	query url.Values
	key   string
	body  call[map[string]any]
}

func (f *foreign) start(t *testing.T) (url string) {
	t.Helper()
	return programtest.ForeignVendor(t, "POST /merge", func(w http.ResponseWriter, r *http.Request) {
		s := seen{query: r.URL.Query(), key: r.Header.Get("Idempotency-Key")}
		_ = json.NewDecoder(r.Body).Decode(&s.body) // a test looks at it
		f.mu.Lock()
		f.seen = append(f.seen, s)
		f.mu.Unlock()
		if f.merge != nil {
			f.merge(w, r)
			return
		}
		_, _ = io.WriteString(w, results(len(s.body.Records)))
	}, f.judge)
}

// results is an answer that accepts n records.
func results(n int) string {
	return fmt.Sprintf(`{"results":[%s]}`, strings.TrimSuffix(strings.Repeat(`{"ok":true},`, n), ","))
}

func TestAVendorWithoutAJudge(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			var f foreign
			r := runJSON(t.Context(), t, "-options 3 -records 31 -max-records 5 -scale 60 -vendor %s -algorithm %s", f.start(t), algorithm)
			require.Zero(t, r.Code, r)
			require.False(t, r.Judged)
			require.Equal(t, 31, r.Served)
			for _, name := range []string{"arrivals", "over", "accepted", "unique", "duplicates", "most_sliding", "most_fixed", "seconds"} {
				require.NotContains(t, r.JSON, name)
			}
			calls, numbers, keys := map[string]int{}, map[float64]bool{}, map[string]bool{}
			for _, s := range f.seen {
				calls[s.body.Option]++
				keys[s.key] = true
				require.Equal(t, catalog(3)[s.body.Option], s.query.Encode())
				for _, record := range s.body.Records {
					require.Equal(t, r.Run, record["run"])
					numbers[record["number"].(float64)] = true
				}
			}
			require.Len(t, numbers, 31)
			require.Len(t, keys, len(f.seen), "each call has a key of its own")
			require.NotContains(t, keys, "")
			if algorithm == "naive" {
				require.Len(t, f.seen, 31)
				return
			}
			if algorithm == "fork" { // two processes that flush at a time divide the records otherwise
				require.Less(t, len(f.seen), 31)
				return
			}
			require.Equal(t, map[string]int{"list-1:upsert": 3, "list-1:insert": 2, "list-1:update": 2}, calls)
		})
	}
}

func TestAJudgeThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	for want, judge := range programtest.FailingJudges() {
		for _, algorithm := range []string{"gresil", "naive"} {
			f := foreign{judge: judge}
			r := runJSON(t.Context(), t, "-options 1 -records 2 -processes 1 -vendor %s -algorithm %s", f.start(t), algorithm)
			require.Equal(t, 1, r.Code, r)
			require.False(t, r.Judged)
			require.Contains(t, r.Problem, want)
		}
	}
}

func TestAVendorThatCannotBeReached(t *testing.T) {
	t.Parallel()
	const url = "http://" + programtest.Unreachable
	for _, algorithm := range []string{"gresil", "naive"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			r := runJSON(t.Context(), t, "-processes 1 -scale 600 -vendor %s -algorithm %s", url, algorithm)
			require.Equal(t, 1, r.Code, r)
			require.Zero(t, r.Served)
			require.Contains(t, r.Problem, "no answer from the vendor at "+url+": dial tcp")
		})
	}
}

func TestARedisThatCannotBeReached(t *testing.T) {
	t.Parallel()
	const addr = programtest.Unreachable
	for _, algorithm := range []string{"gresil", "fork"} {
		r := runJSON(t.Context(), t, "-redis %s -algorithm %s", addr, algorithm)
		require.Equal(t, 1, r.Code, r)
		require.Contains(t, r.Problem, "redis at "+addr+": dial tcp")
	}
}
