package retry_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/retry"
)

// mallocs is the number of allocations of one RoundTrip. Not for parallel tests.
func mallocs(t *testing.T, rt http.RoundTripper, req *http.Request) float64 {
	t.Helper()
	const n = 5_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range n {
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / n
}

func stub(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestFirstTryCostsNoAllocation(t *testing.T) {
	p := core.Must(retry.New(retry.Config{}))
	base := mallocs(t, roundTrip(stub), get(t))
	for name, rt := range map[string]http.RoundTripper{
		"alone":    p.Transport(roundTrip(stub)),
		"pipeline": client.New(roundTrip(stub), p),
	} {
		require.InDelta(t, 0, mallocs(t, rt, get(t))-base, 0.1, name)
	}
	post := request(t.Context(), http.MethodPost, strings.NewReader("in memory"))
	require.InDelta(t, 0, mallocs(t, p.Transport(roundTrip(stub)), post)-base, 0.1, "a body in memory")
}

func BenchmarkFloorStub(b *testing.B) {
	benchmark(b, roundTrip(stub))
}

func BenchmarkRetryFirstTry(b *testing.B) {
	benchmark(b, core.Must(retry.New(retry.Config{})).Transport(roundTrip(stub)))
}

func benchmark(b *testing.B, rt http.RoundTripper) {
	b.Helper()
	req := request(b.Context(), http.MethodGet, nil)
	b.ReportAllocs()
	for b.Loop() {
		resp, err := rt.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
	}
}
