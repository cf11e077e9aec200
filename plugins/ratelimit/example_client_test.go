package ratelimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"golang.org/x/time/rate"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/ratelimit"
)

func ExampleNewClient() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	defer srv.Close()
	limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{
		Name:    "vendor",
		Limit:   ratelimit.PerMinute(2), // to each host
		MaxWait: time.Second,
	}))
	c := &http.Client{Transport: limits.Transport(nil)}
	for range 3 {
		resp, err := c.Get(srv.URL)
		if err != nil {
			wait, _ := core.RetryAfter(err)
			fmt.Println(errors.Is(err, core.ErrRejected), wait.Round(time.Minute))
			return
		}
		fmt.Println(resp.Status)
		_ = resp.Body.Close()
	}
	// Output:
	// 200 OK
	// 200 OK
	// true 1m0s
}

func ExampleNewClient_xTime() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	defer srv.Close()
	shared := rate.NewLimiter(rate.Every(time.Millisecond), 1) // one that the program has already
	limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Limiter: shared}))
	c := &http.Client{Transport: limits.Transport(nil)}
	for range 3 {
		resp, err := c.Get(srv.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(resp.Status)
		_ = resp.Body.Close()
	}
	// Output:
	// 200 OK
	// 200 OK
	// 200 OK
}

func ExampleClient_SetConfig() {
	limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Name: "vendor", Limit: ratelimit.PerMinute(2)}))
	cfg := limits.Config()
	cfg.Limit = ratelimit.PerMinute(5)
	fmt.Println(limits.SetConfig(cfg))
	fmt.Println(limits.SetConfig(ratelimit.ClientConfig{Name: "other"}))
	fmt.Println(limits.Config().Limit)
	// Output:
	// <nil>
	// ratelimit.ClientConfig.Name = other: must stay vendor
	// 5/1m
}

func ExampleClient_Cooldown() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer srv.Close()
	limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{
		Key: func(*http.Request) string { return "vendor" }, // all its hosts count together
	}))
	c := &http.Client{Transport: limits.Transport(nil)}
	resp, err := c.Get(srv.URL)
	if err != nil {
		panic(err)
	}
	fmt.Println(resp.StatusCode)
	_ = resp.Body.Close()

	_, err = c.Get(srv.URL) // is not sent: a minute is more than MaxWait
	wait, _ := core.RetryAfter(err)
	fmt.Println(errors.Is(err, core.ErrRejected), wait.Round(time.Minute))

	until, held := limits.Cooldown().Until("vendor")
	fmt.Println(held, time.Until(until).Round(time.Minute), limits.Cooldown().Release("vendor"))
	// Output:
	// 429
	// true 1m0s
	// true 1m0s true
}

func ExampleDefaultFeedback() {
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{
		"Ratelimit": {`"burst";r=0;t=5, "day";r=812;t=36000`},
	}}
	fmt.Println(ratelimit.DefaultFeedback(resp, time.Now()))

	// A server with a habit of its own.
	feedback := func(resp *http.Response, now time.Time) time.Duration {
		if resp.StatusCode == http.StatusForbidden && resp.Header.Get("X-Quota") == "exceeded" {
			return time.Minute
		}
		return ratelimit.DefaultFeedback(resp, now)
	}
	limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Feedback: feedback}))
	fmt.Println(limits.Close())
	// Output:
	// 5s
	// <nil>
}
