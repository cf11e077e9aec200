package demoserver

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/metrics"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

// Config has the values of the flags of the demo server.
type Config struct {
	Limit   int64           // permits of /hello for each Period; at least 1
	Period  time.Duration   // at least 1ns; in Redis whole microseconds
	Aligned bool            // whether periods begin with the clock
	Sliding bool            // whether each period has the limit, wherever it begins
	Store   ratelimit.Store // holds the state of all limits; if nil, memory does

	Registry *core.Registry // exported at /metrics; if nil, only the limiter is
}

// limits returns the limits of all routes.
func (cfg Config) limits() ratelimit.Config {
	hello := ratelimit.FixedWindow(cfg.Limit, cfg.Period)
	switch {
	case cfg.Sliding:
		hello = ratelimit.SlidingLog(cfg.Limit, cfg.Period)
	case cfg.Aligned:
		hello = ratelimit.AlignedWindow(cfg.Limit, cfg.Period)
	}
	return ratelimit.Config{
		Name:     "demo",
		Registry: cmp.Or(cfg.Registry, &core.Registry{}),
		Limit:    hello,
		Limits: map[string]ratelimit.Limit{
			"search": ratelimit.TokenBucket(5, time.Second, 5),
			"upload": ratelimit.TokenBucket(100, time.Minute, 100),
		},
		Store:        cfg.Store,
		OnStoreError: ratelimit.Deny, // without a count no request passes
	}
}

// New makes the service. The function that it returns closes its limiter.
func New(cfg Config) (handler http.Handler, closeLimits func() error, err error) {
	own := cfg.limits()
	limits, err := ratelimit.New(own)
	if err != nil {
		return nil, nil, err
	}
	byKey, err := ratelimit.NewServer(limits, ratelimit.ServerOptions{
		// A client can make up a key: a real service checks it before the limiter.
		Key: server.FirstOf(server.Header("X-API-Key"), server.ClientIP),
		Routes: []ratelimit.Route{
			{Pattern: "GET /search", Limit: "search"},
			{Pattern: "POST /upload", Limit: "upload", Weight: startedKiB},
		},
		RateLimit: true,
	})
	if err != nil {
		return nil, nil, errors.Join(err, limits.Close())
	}
	collector, err := metrics.New(own.Registry, metrics.Config{})
	if err != nil {
		return nil, nil, errors.Join(err, limits.Close())
	}
	exported := prometheus.NewRegistry()
	exported.MustRegister(collector)

	r := chi.NewRouter()
	limited := r.With(byKey.Handler)
	limited.Get("/hello", text("hello"))
	limited.Get("/search", text("found"))
	limited.Post("/upload", upload)
	r.Get("/health", text("ok"))
	r.Get("/flaky", (&flaky{}).ServeHTTP)
	var down unstable
	r.Get("/unstable", down.ServeHTTP)
	r.Post("/unstable/down", down.set(true))
	r.Post("/unstable/up", down.set(false))
	r.Get("/slow", slow)
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(exported, promhttp.HandlerOpts{}))
	return r, limits.Close, nil
}

// startedKiB is what an upload costs. It wants the length said, also that of no
// body at all.
func startedKiB(r *http.Request) (int64, error) {
	if r.ContentLength < 0 || r.Header.Get("Content-Length") == "" {
		return 0, server.Rejection{Status: http.StatusLengthRequired, Detail: "Send a Content-Length."}
	}
	return max(1, (r.ContentLength+1023)/1024), nil
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s+"\n") }
}

func upload(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "%d bytes\n", n)
}
