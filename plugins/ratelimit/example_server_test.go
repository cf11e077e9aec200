package ratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

// A limit for all, another in place of it for one route, and one on top of it for
// another.
func ExampleNewServer() {
	err := func() error {
		signIn := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
		pages := func(r *http.Request) (int64, error) { return strconv.ParseInt(r.URL.Query().Get("pages"), 10, 64) }

		limits, err := ratelimit.NewServer(ratelimit.ServerConfig{
			Name:  "api",
			Limit: ratelimit.PerMinute(1000), // zero value: fixed window, 1000 per minute
			Key:   server.ClientIP,           // nil: the IP of RemoteAddr, IPv6 by /64
			Routes: []ratelimit.Route{ // in place of the above; net/http patterns
				{Pattern: "POST /export", Limit: ratelimit.TokenBucket(10, time.Second, 20), Weight: pages},
			},
		})
		if err != nil {
			return err
		}
		r := chi.NewRouter()
		r.Use(limits.Handler)

		login, err := limits.With(func(c *ratelimit.ServerConfig) { c.Name, c.Limit = "login", ratelimit.PerMinute(5) })
		if err != nil {
			return err
		}
		r.With(login.Handler).Post("/login", signIn) // on top of the global limit; if it refuses, the global charge is refunded
		r.Post("/export", signIn)

		for _, target := range []string{"/export?pages=15", "/export?pages=15", "/export?pages=21", "/login", "/login", "/login", "/login", "/login", "/login"} {
			w := httptest.NewRecorder()
			r.ServeHTTP(w, httptest.NewRequest(http.MethodPost, target, http.NoBody))
			fmt.Println(target, w.Code, w.Header().Get("X-Rate-Limited"))
		}
		return nil
	}()
	fmt.Println(err)
	// Output:
	// /export?pages=15 204 false
	// /export?pages=15 429 true
	// /export?pages=21 413 true
	// /login 204 false
	// /login 204 false
	// /login 204 false
	// /login 204 false
	// /login 204 false
	// /login 429 true
	// <nil>
}

// What a client sees by which it can slow down.
func ExampleHeaderStyle() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{
		Name:    "api",
		Limit:   ratelimit.PerMinute(2),
		Headers: ratelimit.HeaderDraft10 | ratelimit.HeaderXRateLimit,
	}))
	handler := limits.Handler(http.NotFoundHandler())
	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		h := w.Header()
		remaining, seconds, _ := strings.Cut(h.Get("RateLimit"), ";t=")
		fmt.Println(w.Code, h["Ratelimit-Policy"], remaining, h["X-Ratelimit-Remaining"], h.Get("Retry-After") == seconds)
	}
	// Output:
	// 404 ["api";q=2;w=60] "api";r=1 [1] false
	// 404 ["api";q=2;w=60] "api";r=0 [0] false
	// 429 ["api";q=2;w=60] "api";r=0 [0] true
}

// The forms that clients of different ages know, and two limits on each key.
func ExampleHeaderStyle_drafts() {
	for _, style := range []ratelimit.HeaderStyle{ratelimit.HeaderDraft10, ratelimit.HeaderDraft03} {
		limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{
			Name:    "api",
			Limit:   ratelimit.PerMinute(2).And(ratelimit.PerHour(100)),
			Headers: style,
		}))
		w := httptest.NewRecorder()
		limits.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		fmt.Println(style)
		for _, field := range []string{"RateLimit-Policy", "RateLimit", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
			if value := w.Header().Get(field); value != "" {
				fmt.Printf("  %s: %s\n", field, value)
			}
		}
	}
	// Output:
	// draft10
	//   RateLimit-Policy: "api-1m";q=2;w=60, "api-1h";q=100;w=3600
	//   RateLimit: "api-1m";r=1;t=60
	// draft03
	//   RateLimit-Limit: 2
	//   RateLimit-Remaining: 1
	//   RateLimit-Reset: 60
}

// An upload costs 1 for each started KiB, and needs a Content-Length.
func ExampleServerConfig_weight() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{
		Limit: ratelimit.PerMinute(100),
		Weight: func(r *http.Request) (int64, error) {
			if r.ContentLength < 0 {
				return 0, server.Rejection{Status: http.StatusLengthRequired, Detail: "Send a Content-Length."}
			}
			return max(1, (r.ContentLength+1023)/1024), nil
		},
	}))
	handler := limits.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, length := range []int64{90 << 10, 20 << 10, 200 << 10, -1} {
		r := httptest.NewRequest(http.MethodPost, "/upload", http.NoBody)
		r.ContentLength = length
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(length, w.Code)
	}
	// Output:
	// 92160 200
	// 20480 429
	// 204800 413
	// -1 411
}

// Users have what they pay for.
func ExampleServerConfig_tier() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{
		Limit: ratelimit.PerMinute(60),
		Key:   server.User,
		Tier: func(r *http.Request) ratelimit.Limit {
			if user, _, _ := r.BasicAuth(); user == "ann" {
				return ratelimit.PerMinute(6000)
			}
			return ratelimit.Limit{} // that of the config
		},
		Headers: ratelimit.HeaderDraft10,
	}))
	handler := limits.Handler(http.NotFoundHandler())
	for _, user := range []string{"ann", "bob"} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.SetBasicAuth(user, "secret")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(user, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// ann "default";q=6000;w=60
	// bob "default";q=60;w=60
}

// A response of one's own, and a header more.
func ExampleServerConfig_hooks() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{
		Limit: ratelimit.PerHour(1),
		OnSuccess: func(w http.ResponseWriter, _ *http.Request, info ratelimit.Info) {
			w.Header().Set("X-Left", strconv.FormatInt(info.Result.Remaining, 10))
		},
		OnRejected: func(w http.ResponseWriter, _ *http.Request, rej server.Rejection) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = fmt.Fprintf(w, "come back in %v", rej.RetryAfter.Round(time.Hour))
		},
		Exclude: func(r *http.Request) bool { return r.URL.Path == "/health" },
	}))
	handler := limits.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, path := range []string{"/", "/", "/health"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		fmt.Printf("%s %d %q %q\n", path, w.Code, w.Header()["X-Left"], w.Body)
	}
	// Output:
	// / 200 ["0"] ""
	// / 429 [] "come back in 1h0m0s"
	// /health 200 [] ""
}

// The key is an API key, or the IP of the client if the request has none. The plugin is
// part of a pipeline.
func ExampleServerConfig_key() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{
		Name:  "api",
		Limit: ratelimit.PerMinute(1),
		Key:   server.FirstOf(server.Header("X-API-Key"), server.ClientIP),
	}))
	pipeline := core.Must(server.New(limits))
	handler := pipeline.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, key := range []string{"a", "a", "b", ""} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("X-API-Key", key)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Printf("%q %d\n", key, w.Code)
	}
	// Output:
	// "a" 200
	// "a" 429
	// "b" 200
	// "" 200
}
