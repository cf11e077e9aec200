package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/server"
)

// A tracer names each request, for the handler and for the header.
type tracer struct{}

type traceKey struct{}

func (tracer) Name() string        { return "trace" }
func (tracer) Phase() server.Phase { return server.Setup }
func (tracer) Close() error        { return nil }

func (tracer) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &trace{id: "7f3a"}
		w = t.rec.Wrap(w)
		t.rec.Observe(t)
		next.ServeHTTP(w, r)
	})
}

// A trace is one request.
type trace struct {
	rec server.Recorder
	id  string
}

// OnHeader is called before the header is sent.
func (t *trace) OnHeader(int) { t.rec.Header().Set("X-Trace", t.id) }

// Value attaches the trace to the request, for [server.Value].
func (t *trace) Value(key any) any {
	if key == (traceKey{}) {
		return t
	}
	return nil
}

// A plugin attaches a value to the writer: no copy of the request is needed.
func ExampleValue() {
	pipeline := core.Must(server.New(tracer{}))
	handler := pipeline.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if t, ok := server.Value(w, traceKey{}).(*trace); ok {
			_, _ = fmt.Fprint(w, "trace ", t.id)
		}
	}))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	fmt.Println(w.Body, w.Header().Get("X-Trace"))
	fmt.Println(pipeline)
	// Output:
	// trace 7f3a 7f3a
	// Setup server_test.tracer(trace)
}

// A hidingWriter has no Unwrap, and passes on what Value needs.
type hidingWriter struct{ outer http.ResponseWriter }

func (w hidingWriter) Header() http.Header         { return w.outer.Header() }
func (w hidingWriter) Write(p []byte) (int, error) { return w.outer.Write(p) }
func (w hidingWriter) WriteHeader(status int)      { w.outer.WriteHeader(status) }
func (w hidingWriter) Value(key any) any           { return server.Value(w.outer, key) }

func ExampleValuer() {
	hide := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(hidingWriter{w}, r) })
	}
	handler := tracer{}.Handler(hide(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Println(server.Value(w, traceKey{}) != nil)
	})))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	// Output: true
}

// A plugin that rejects many requests prepares the body once.
func ExamplePrepare() {
	closed := server.Prepare(server.Rejection{Detail: "The shop opens at 8."})
	for _, accept := range []string{"", "text/plain"} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("Accept", accept)
		closed.Reject(w, r, time.Hour, func() error { return errors.New("closed") })
		fmt.Println(w.Code, w.Header().Get("Retry-After"), w.Body)
	}
	// Output:
	// 503 3600 {"type":"about:blank","title":"Service Unavailable","status":503,"detail":"The shop opens at 8."}
	// 503 3600 Service Unavailable: The shop opens at 8.
}

// A middleware answers only if the handler has not.
func ExampleRecorder_Wrote() {
	fallback := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var rec server.Recorder
			w = rec.Wrap(w)
			next.ServeHTTP(w, r)
			if !rec.Wrote() && !rec.Hijacked() {
				http.Error(w, "not here", http.StatusNotFound)
			}
		})
	}
	w := httptest.NewRecorder()
	fallback(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	fmt.Print(w.Code, " ", w.Body)
	// Output: 404 not here
}
