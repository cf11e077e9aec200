package ratelimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/ratelimit"
)

// The limits in words, as in a file of settings.
func ExampleLimit() {
	for _, l := range []ratelimit.Limit{
		ratelimit.PerSecond(5),
		ratelimit.FixedWindow(100, 10*time.Minute),
		ratelimit.AlignedWindow(1000, 24*time.Hour),
		ratelimit.SlidingWindow(100, time.Minute, 6),
		ratelimit.SlidingCounter(100, time.Minute),
		ratelimit.SlidingLog(100, time.Minute),
		ratelimit.TokenBucket(10, time.Second, 20).And(ratelimit.PerHour(1000)),
	} {
		fmt.Println(l)
	}
	// Output:
	// 5/1s
	// 100/10m
	// 1000/24h aligned
	// sliding_window 100/1m segments 6
	// sliding_counter 100/1m
	// sliding_log 100/1m
	// 10/1s burst 20 and 1000/1h
}

// Requests of one job share a key of their own, and a health check takes nothing.
func ExampleClient_Override() {
	limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Limit: ratelimit.PerMinute(1), MaxQueue: -1}))
	rt := limits.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
	}))
	send := func(name string, f func(*ratelimit.ClientCall)) {
		ctx := limits.Override(context.Background(), f)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.test/", http.NoBody)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp, err := rt.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		fmt.Println(name, err == nil)
	}
	send("first", nil)
	send("second", nil)
	send("job", func(c *ratelimit.ClientCall) { c.Key = func(*http.Request) string { return "job 7" } })
	send("health", func(c *ratelimit.ClientCall) { c.Disabled = true })
	s := limits.Stats()
	fmt.Println(s.Allowed, s.Rejected)
	// Output:
	// first true
	// second false
	// job true
	// health true
	// 2 1
}

// An outer middleware that knows the user changes the key and the weight of a request.
func ExampleServer_Override() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Limit: ratelimit.PerMinute(2)}))
	handler := limits.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	session := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		ctx := limits.Override(r.Context(), func(c *ratelimit.ServerCall) {
			c.Key = func(*http.Request) (string, bool) { return user, true }
			c.Weight = func(*http.Request) (int64, error) { return 2, nil }
			c.Disabled = user == "monitor"
		})
		handler.ServeHTTP(w, r.WithContext(ctx))
	})
	for _, user := range []string{"ann", "ann", "ben", "monitor", "monitor"} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.SetBasicAuth(user, "secret")
		session.ServeHTTP(w, r)
		fmt.Println(user, w.Code)
	}
	// Output:
	// ann 200
	// ann 429
	// ben 200
	// monitor 200
	// monitor 200
}

// Limits and routes change while requests are served.
func ExampleServer_SetConfig() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Limit: ratelimit.PerMinute(2)}))
	cfg := limits.Config()
	cfg.Routes = []ratelimit.Route{{Pattern: "POST /export", Limit: ratelimit.PerHour(1)}}
	fmt.Println(limits.SetConfig(cfg))
	handler := limits.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/export", http.NoBody))
		fmt.Println(w.Code)
	}
	// Output:
	// <nil>
	// 200
	// 429
}

// Code without a ResponseWriter, such as a resolver, finds the charge in the context.
func ExampleChargeFrom() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Limit: ratelimit.PerMinute(5), ChargeInContext: true}))
	resolve := func(ctx context.Context) {
		charge, ok := ratelimit.ChargeFrom(ctx)
		if !ok {
			return
		}
		result, err := charge.Take(ctx, 3)
		fmt.Println(result.Remaining, err)
	}
	handler := limits.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { resolve(r.Context()) }))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	// Output: 1 <nil>
}
