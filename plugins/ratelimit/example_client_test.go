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
	fmt.Println(limits.SetConfig(limits.Config().With(func(c *ratelimit.ClientConfig) { c.Limit = ratelimit.PerMinute(5) })))
	fmt.Println(limits.SetConfig(ratelimit.ClientConfig{Name: "other"}))
	fmt.Println(limits.Config().Limit)
	// Output:
	// <nil>
	// ratelimit.ClientConfig.Name = other: must stay as it is
	// 5 per 1m0s
}
