package server_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/gresil/gresil/internal/recorder"
	"github.com/gresil/gresil/server"
)

// plugin is a server.Plugin that writes its name into a header of the response.
type plugin struct {
	name  string
	phase server.Phase
}

func (p *plugin) String() string      { return "test.plugin(" + p.name + ")" }
func (p *plugin) Phase() server.Phase { return p.phase }

func (p *plugin) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Passed", p.name)
		next.ServeHTTP(w, r)
	})
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }

func get(target string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// keyOf returns the key of r as text, and "(none)" where it has none.
func keyOf(k server.Key, r *http.Request) string {
	key, found := k(r)
	if !found {
		return "(none)"
	}
	return key
}

const runs = 10_000

// allocations counts what runs calls of f allocate. The caller is not parallel.
func allocations(tb testing.TB, f func()) uint64 {
	tb.Helper()
	f()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

func record(w http.ResponseWriter) (http.ResponseWriter, *recorder.Recorder) {
	rec := new(recorder.Recorder)
	return rec.Wrap(w), rec
}
