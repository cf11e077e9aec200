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

func attempts(limit time.Duration) *timeout.Client {
	return timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: limit})), timeout.ClientOptions{PerAttempt: true})
}

func TestAllocations(t *testing.T) { //nolint:paralleltest // they are counted
	near, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, c := range map[string]struct {
		ctx   context.Context
		limit time.Duration
		want  float64
	}{
		"limit":           {t.Context(), time.Hour, 7},
		"nearer deadline": {near, time.Hour, 0},
		"no limit":        {t.Context(), -1, 0},
	} {
		req := core.Must(http.NewRequestWithContext(c.ctx, http.MethodGet, "http://example.test/", nil))
		rt := attempts(c.limit).Transport(reusable(req))
		got := mallocs(func() {
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		})
		require.LessOrEqual(t, got, c.want+0.1, name)
	}
}

func BenchmarkAttempt(b *testing.B) {
	req := httptest.NewRequest(http.MethodGet, "http://example.test/", nil)
	for name, rt := range map[string]http.RoundTripper{
		"floor": reusable(req),
		"limit": attempts(time.Hour).Transport(reusable(req)),
		"off":   attempts(-1).Transport(reusable(req)),
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
		"deadline":            timeout.NewServer(nil, timeout.ServerOptions{}).Handler(h),
		"Cut":                 timeout.NewServer(nil, timeout.ServerOptions{Cut: true}).Handler(h),
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
