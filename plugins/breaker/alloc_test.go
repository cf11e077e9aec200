package breaker_test

import (
	"net/http"
	"testing"

	"github.com/gresil/gresil/plugins/breaker"
)

// TestTheDefaultKeyAllocatesOnlyToBuildAHost is not parallel: it counts the allocations of
// the process. The package documentation states these figures.
func TestTheDefaultKeyAllocatesOnlyToBuildAHost(t *testing.T) { //nolint:paralleltest // see above
	for url, want := range map[string]float64{
		"https://api.example.com/":     0,
		"https://api.example.com:443/": 0,
		"http://api.example.com:80/":   0,
		"http://api.example.com/":      1,
		"https://API.example.com/":     1,
	} {
		p := newClient(t, breaker.ClientConfig{})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp := respond(req, http.StatusOK)
		rt := p.Transport(roundTrip(func(*http.Request) (*http.Response, error) { return resp, nil }))
		if got := testing.AllocsPerRun(1000, func() { _, _ = rt.RoundTrip(req) }); got > want {
			t.Errorf("%s: %v allocations, want %v", url, got, want)
		}
	}
}
