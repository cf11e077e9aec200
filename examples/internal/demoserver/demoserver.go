// Package demoserver is the service that all demos run: a chi router with
// limited, flaky, slow and unstable routes.
package demoserver

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/metrics"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

// New makes the service. The limit, store and registry of cfg are those of /hello, and of the other limits. The function that
// it returns closes the limiter.
func New(cfg ratelimit.Config) (handler http.Handler, closeLimits func() error, err error) {
	cfg.Name, cfg.OnStoreError = "demo", ratelimit.Deny // without a count no request passes
	cfg.Limits = map[string]ratelimit.Limit{
		"search": ratelimit.TokenBucket(5, time.Second, 5),
		"upload": ratelimit.TokenBucket(100, time.Minute, 100),
	}
	limits, err := ratelimit.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	byKey := core.Must(ratelimit.NewServer(limits, ratelimit.ServerOptions{
		// A client can make up a key: a real service checks it before the limiter.
		Key: server.FirstOf(server.Header("X-API-Key"), server.ClientIP),
		Routes: []ratelimit.Route{
			{Pattern: "GET /search", Limit: "search"},
			{Pattern: "POST /upload", Limit: "upload", Weight: startedKiB},
		},
		RateLimit: true,
	}))
	exported := prometheus.NewRegistry()
	exported.MustRegister(core.Must(metrics.New(cfg.Registry, metrics.Config{})))

	r := chi.NewRouter()
	limited := r.With(byKey.Handler)
	limited.Get("/hello", text("hello"))
	limited.Get("/search", text("found"))
	limited.Post("/upload", upload)
	r.Get("/health", text("ok"))
	r.Get("/flaky", (&flaky{seen: map[string]int{}}).ServeHTTP)
	r.Get("/slow", slow)
	var down atomic.Bool
	r.Get("/unstable", func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "up")
	})
	r.Post("/unstable/{state}", func(w http.ResponseWriter, r *http.Request) {
		down.Store(chi.URLParam(r, "state") == "down")
		w.WriteHeader(http.StatusNoContent)
	})
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
