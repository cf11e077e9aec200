package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/recorder"
	"github.com/gresil/gresil/metrics"
	"github.com/gresil/gresil/plugins/ratelimit"
)

// counted goes around the plugins of a server.
func counted(c *metrics.Collector, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := new(recorder.Recorder)
		w = rec.Wrap(w)
		next.ServeHTTP(w, r)
		c.ServerRejected(rec.Rejected(), rec.Status())
	})
}

// countedTransport goes around the plugins of a client.
type countedTransport struct {
	c    *metrics.Collector
	next http.RoundTripper
}

func (t countedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		t.c.ClientRejected(err, 0) // any error: "other" is that of no mechanism
		return nil, err
	}
	t.c.ClientRejected(client.Rejected(resp), resp.StatusCode)
	return resp, nil
}

func ExampleCollector_ServerRejected() {
	registry := &core.Registry{}
	collector := core.Must(metrics.New(registry, metrics.Config{}))
	exported := prometheus.NewRegistry()
	exported.MustRegister(collector)

	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Registry: registry, Limit: ratelimit.PerMinute(2)}))
	handler := counted(collector, limits.Handler(http.NotFoundHandler()))
	for range 3 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
	families, _ := exported.Gather()
	for _, f := range families {
		if f.GetName() == "resilience_http_rejections_total" {
			for _, m := range f.GetMetric() {
				if m.GetCounter().GetValue() == 0 {
					continue // the usual ones are there from the start
				}
				for _, l := range m.GetLabel() {
					fmt.Print(l.GetName(), "=", l.GetValue(), " ")
				}
				fmt.Println(m.GetCounter().GetValue())
			}
		}
	}
	// Output: code=429 reason=rate_limited side=server 1
}

var _ http.RoundTripper = countedTransport{}
