package client_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
)

func TestReplay_Allocations(t *testing.T) { //nolint:paralleltest // they are counted
	for _, body := range []io.Reader{nil, http.NoBody, strings.NewReader("in memory")} {
		req := request(t, http.MethodPut, body)
		ctx := req.Context()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 1000 {
			r := client.NewReplay(req, 1<<20)
			if sent, err := r.Attempt(ctx); err != nil || sent != req || client.Classify(sent, nil, errDown) == 0 {
				t.Fatal("it is not the request", err)
			}
			r.Close()
		}
		runtime.ReadMemStats(&after)
		require.Less(t, after.Mallocs-before.Mallocs, uint64(100))
	}
}

// What is kept is within the limit, and nothing if it cannot be all.
func TestReplay_Memory(t *testing.T) { //nolint:paralleltest // it is counted
	buffer := make([]byte, 1<<20)
	for length, limit := range map[int64]int64{-1: 10, 1 << 20: 1 << 19} {
		req := request(t, http.MethodPut, io.LimitReader(reads(func(p []byte) (int, error) { return len(p), nil }), 1<<20))
		req.ContentLength = length
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := client.NewReplay(req, limit)
		sent, err := r.Attempt(req.Context())
		for err == nil {
			_, err = sent.Body.Read(buffer)
		}
		runtime.ReadMemStats(&after)
		require.Equal(t, io.EOF, err)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(32<<10), limit)
	}
}

// The bars of docs/benchmarks.md, over a stub.
func TestTransport_Allocations(t *testing.T) { //nolint:paralleltest // they are counted
	base := roundTrip(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
	})
	repeat, judge := retry.NewClient(nil, retry.ClientOptions{}), breaker.NewClient(nil, breaker.ClientOptions{})
	attempt := timeout.NewClient(nil, timeout.ClientOptions{PerAttempt: true})
	for most, plugins := range map[float64][]client.Plugin{2: {repeat, judge}, 8: {repeat, judge, attempt}} {
		rt, req := client.New(base, plugins...), request(t, http.MethodGet, nil)
		require.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		}), most+1, "%d plugins, and the response of the stub", len(plugins))
	}
}
