package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demotest"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/outbound/batch"
)

func TestVendorWithoutJudge(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"gresil", "naive"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			f := foreign()
			const args = "-options 3 -records 31 -max-records 5 -scale 60 -vendor %s -algorithm %s"
			r := demotest.Run(t.Context(), t, args, f.Start(t, pattern), algorithm)
			require.Zero(t, r.Code, r)
			require.False(t, r.Is("judged"))
			require.Equal(t, []int{31}, r.Nums("served"))
			for _, name := range []string{"arrivals", "over", "accepted", "unique", "duplicates", "most_sliding", "most_fixed", "seconds"} {
				require.NotContains(t, r.Figures, name)
			}
			calls, numbers, keys := map[string]int{}, map[float64]bool{}, map[string]bool{"": true}
			seen, bodies := f.Seen()
			for i, s := range seen {
				body := parsed(bodies[i])
				calls[body.Option]++
				keys[s.Header.Get("Idempotency-Key")] = true
				require.Equal(t, arguments(body.Option), s.URL.Query().Encode())
				require.NotEmpty(t, s.Header.Get("X-Sent"))
				for _, record := range body.Records {
					require.Equal(t, r.Text("run"), record["run"])
					numbers[record["number"].(float64)] = true
				}
			}
			require.Len(t, numbers, 31)
			require.Len(t, keys, len(seen)+1, "each call has a key of its own")
			if algorithm == "naive" {
				require.Len(t, seen, 31)
				return
			}
			require.Equal(t, map[string]int{"list-1:upsert": 3, "list-1:insert": 2, "list-1:update": 2}, calls)
		})
	}
}

func TestUnreachableRedis(t *testing.T) {
	t.Parallel()
	r := demotest.Run(t.Context(), t, "-redis %s", demotest.Unreachable)
	require.Equal(t, 1, r.Code, r)
	require.Contains(t, r.Text("problem"), "dial tcp "+demotest.Unreachable)
}

// A worker that is interrupted does not say that all records are added.
func TestInterruptedAdd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := &worker{}
	w.Records = 1
	require.ErrorIs(t, w.add(ctx, nil), context.Canceled)
}

// Calls that are sent are waited for, and the other records deleted.
func TestInterruptDrains(t *testing.T) {
	t.Parallel()
	redis, err := redisserver.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(redis.Kill)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := &demotest.Foreign{Call: func(w http.ResponseWriter, _ *http.Request, _ int, body []byte) {
		cancel()
		time.Sleep(100 * time.Millisecond) // the call is on its way
		accept(w, body)
	}}
	const args = "-options 1 -records 100 -max-records 10 -calls-per-minute 10 -redis %s -vendor %s"
	r := demotest.RunBinary(ctx, t, io.Discard, args, redis.Addr, f.Start(t, pattern))
	require.Equal(t, 1, r.Code, r.Stdout)
	seen, _ := f.Seen()
	left := 100 - 10*len(seen)
	require.Equal(t, []int{10 * len(seen), left}, r.Nums("served", "lost"))
	require.Equal(t, fmt.Sprintf("interrupted; %d of 100 records were not served", left), r.Text("problem"))
	requireNoRecords(t, redis)
}

// Each record belongs to one worker, which has records of each option.
func TestRecordsOfWorkers(t *testing.T) {
	t.Parallel()
	for place := range 2 {
		b, err := batch.New(batch.Config[record, struct{}]{
			Name: "test", Option: func(r record) string { return optionName(r.Number % 4) },
			Send: func(context.Context, string, []record) ([]batch.Result[struct{}], error) { return nil, nil },
		})
		require.NoError(t, err)
		w := &worker{order: order{config: config{terms: terms{Options: 4}, Records: 26, Processes: 2}, Place: place}}
		require.NoError(t, w.add(t.Context(), b))
		groups, err := b.Groups(t.Context())
		require.NoError(t, err)
		require.Len(t, groups, 4)
		n := 0
		for _, g := range groups {
			n += g.Pending
		}
		require.Equal(t, []int{14, 12}[place], n)
		w.Added = true
		require.NoError(t, w.add(t.Context(), b))
		require.EqualValues(t, n, b.Stats().Added)
	}
	require.Equal(t, url.Values{"method": {"merge"}, "list": {"list-2"}, "match": {"email"}, "mode": {"insert"}}.Encode(), arguments(optionName(5)))
}

func TestAnswersOfVendor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args string
		call func(w http.ResponseWriter, n int, body []byte)

		code                            int
		served, failed, calls, arrivals int
		problem                         string // its beginning
	}{
		"a record is not accepted, the others are": {
			"-options 1 -records 3", func(w http.ResponseWriter, _ int, _ []byte) {
				_, _ = io.WriteString(w, `{"results":[{"ok":true},{"ok":false,"error":"no such contact"},{"ok":true}]}`)
			}, 1, 2, 1, 1, 1, "1 of 3 records were not served; 1 failed, the first error: no such contact",
		},
		"a long error is cut": {
			"-options 1 -records 1", func(w http.ResponseWriter, _ int, _ []byte) {
				http.Error(w, strings.Repeat("é\n", 100_000), http.StatusBadRequest)
			}, 1, 0, 1, 0, 1, "1 of 1 records were not served; 1 failed, the first error: the vendor rejects the call: é é é",
		},
		"a record that cannot be read is found by halves": { // 16, and two halves of 16, 8, 4 and 2
			"-options 1 -records 16 -max-records 16", func(w http.ResponseWriter, _ int, body []byte) {
				if slices.ContainsFunc(parsed(body).Records, func(r map[string]any) bool { return r["number"] == 11.0 }) {
					http.Error(w, "malformed", http.StatusBadRequest)
					return
				}
				accept(w, body)
			}, 1, 15, 1, 4, 9, "1 of 16 records were not served; 1 failed, the first error: the vendor rejects the call: malformed",
		},
		"no results": {
			"-options 1 -records 2", func(w http.ResponseWriter, n int, _ []byte) { _, _ = w.Write(results(2 * (n - 1))) }, 0, 2, 0, 2, 2, "",
		},
		"more calls than are enough": {
			"-options 1 -records 2", func(w http.ResponseWriter, n int, _ []byte) { _, _ = w.Write(results(2 * (n - 1))) },
			1, 2, 0, 2, 2, "2 calls were made, 1 are enough",
		},
		"too many results": {
			"-options 1 -records 2", func(w http.ResponseWriter, n int, _ []byte) { _, _ = w.Write(results(4 - n)) }, 0, 2, 0, 2, 2, "",
		},
		"a vendor that is down for a while": {
			"-options 4 -records 400 -max-records 10 -scale 60", func(w http.ResponseWriter, n int, body []byte) {
				if n > 5 && n < 50 {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				accept(w, body)
			}, 0, 400, 0, 40, 84, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &demotest.Foreign{Call: func(w http.ResponseWriter, _ *http.Request, n int, body []byte) { c.call(w, n, body) }}
			if c.code == 1 && c.failed == 0 {
				f.Figures = `{"records":2}`
			}
			r := demotest.Run(t.Context(), t, "-scale 600 -processes 1 -vendor %s %s", f.Start(t, pattern), c.args)
			require.Equal(t, c.code, r.Code, r)
			require.Equal(t, []int{c.served, c.failed, c.calls, 0}, r.Nums("served", "failed", "calls", "lost"))
			seen, _ := f.Seen()
			require.Len(t, seen, c.arrivals)
			require.True(t, strings.HasPrefix(r.Text("problem"), c.problem), r.Text("problem"))
			require.Less(t, len(r.Text("problem")), 1200)
		})
	}
}

// The other calls are not repeated.
func TestRefusedCallIsRepeatedAlone(t *testing.T) {
	t.Parallel()
	f := &demotest.Foreign{Call: func(w http.ResponseWriter, _ *http.Request, n int, body []byte) {
		if n == 2 {
			http.Error(w, "too many calls", http.StatusTooManyRequests)
			return
		}
		accept(w, body)
	}}
	const args = "-options 3 -records 12 -max-records 2 -processes 1 -calls-per-minute 10 -scale 60 -vendor %s"
	r := demotest.Run(t.Context(), t, args, f.Start(t, pattern))
	require.Zero(t, r.Code, r)
	require.Equal(t, []int{12, 6, 1}, r.Nums("served", "calls", "refused"))
	seen, bodies := f.Seen()
	times := map[string]int{}
	call := func(i int) string { return seen[i].Header.Get("Idempotency-Key") + string(bytes.TrimSpace(bodies[i])) }
	for i := range seen {
		times[call(i)]++
	}
	require.Len(t, times, 6)
	require.Equal(t, 2, times[call(1)], "with the same key and records")
}

// A refusal pauses both processes, and its call is made again. The vendor pardons what arrives within 100 ms and a round trip
// of its refusal.
func TestNothingIsSentInPause(t *testing.T) {
	t.Parallel()
	const pardon = 200 * time.Millisecond
	quiettest.Repeat(t, func() error {
		var mu sync.Mutex
		var from, until time.Time
		refused, inside := 0, 0
		f := &demotest.Foreign{Call: func(w http.ResponseWriter, _ *http.Request, n int, body []byte) {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			if now.Before(until) && now.Sub(from) > pardon {
				inside++
			}
			if n > 4 && refused < 3 && !now.Before(until) {
				refused++
				from, until = now, now.Add(time.Second)
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			accept(w, body)
		}}
		const args = "-options 4 -records 400 -max-records 10 -scale 60 -vendor %s"
		r := demotest.RunBinary(t.Context(), t, io.Discard, args, f.Start(t, pattern))
		require.Zero(t, r.Code, r.Stdout)
		require.Equal(t, []int{400, 0, 40, 3}, r.Nums("served", "failed", "calls", "refused"))
		require.Equal(t, 3, refused)
		if inside > 0 {
			return fmt.Errorf("%d calls inside pauses", inside)
		}
		return nil
	})
}
