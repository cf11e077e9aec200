package breaker_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gresil/gresil/plugins/breaker"
)

// With two handlers the request is copied, for the inner one. It is not parallel: it counts the allocations of the process.
func TestARequestAllocatesOnceForItsExchange(t *testing.T) { //nolint:paralleltest // see above
	r, w := httptest.NewRequest(http.MethodGet, "/", http.NoBody), httptest.NewRecorder()
	for name, want := range map[string]float64{"one handler": 1, "two handlers": 2} {
		p := newServer(t, breaker.ServerConfig{})
		h := p.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		if name == "two handlers" {
			p.Handler(h)
		}
		if got := testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, r) }); got > want {
			t.Errorf("%s: %v allocations, want %v", name, got, want)
		}
	}
}
