package timeout_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
)

// mallocs counts the allocations of one run of f. Not for parallel tests.
func mallocs(f func()) float64 {
	const runs = 2_000
	f()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / runs
}

// reusable answers with the same response all the time.
func reusable(req *http.Request) stub {
	body := io.NopCloser(strings.NewReader(""))
	resp := answer(req, nil)
	return func(*http.Request) (*http.Response, error) { resp.Body = body; return resp, nil }
}

func TestAllocations(t *testing.T) { //nolint:paralleltest // they are counted
	near, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		cfg  timeout.Config
		want float64
	}{
		{"limit", t.Context(), timeout.Config{Limit: time.Hour}, 7},
		{"limit on the body", t.Context(), timeout.Config{Limit: time.Hour, CutBody: true}, 7},
		{"nearer deadline of the caller", near, timeout.Config{Limit: time.Hour}, 0},
		{"no limit", t.Context(), timeout.Config{Limit: -1}, 0},
	} {
		req, err := http.NewRequestWithContext(tt.ctx, http.MethodGet, "http://example.test/", nil)
		require.NoError(t, err)
		rt := core.Must(timeout.NewAttempt(tt.cfg)).Transport(reusable(req))
		got := mallocs(func() {
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		})
		require.InDelta(t, tt.want, got, 0.1, tt.name)
	}
}

func BenchmarkAttempt(b *testing.B) {
	req := httptest.NewRequest(http.MethodGet, "http://example.test/", nil)
	for name, rt := range map[string]http.RoundTripper{
		"floor": reusable(req),
		"limit": core.Must(timeout.NewAttempt(timeout.Config{})).Transport(reusable(req)),
		"off":   core.Must(timeout.NewAttempt(timeout.Config{Limit: -1})).Transport(reusable(req)),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				resp, err := rt.RoundTrip(req)
				if err != nil {
					b.Fatal(err)
				}
				_ = resp.Body.Close()
			}
		})
	}
}

// blank is the cheapest writer there is.
type blank struct{ header http.Header }

func (w blank) Header() http.Header       { return w.header }
func (blank) WriteHeader(int)             {}
func (blank) Write(p []byte) (int, error) { return len(p), nil }

func BenchmarkServer(b *testing.B) {
	text := []byte("hello")
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) })
	for name, handler := range map[string]http.Handler{
		"floor":               h,
		"limit":               core.Must(timeout.NewServer(timeout.ServerConfig{})).Handler(h),
		"http.TimeoutHandler": http.TimeoutHandler(h, time.Minute, ""),
	} {
		b.Run(name, func(b *testing.B) {
			w, r := blank{http.Header{}}, httptest.NewRequest(http.MethodGet, "/", nil)
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				handler.ServeHTTP(w, r)
			}
		})
	}
}
