package retry_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/plugins/retry"
)

// flaky is a server that answers 503 a few times, and then 200.
func flaky(failures int) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		code := http.StatusOK
		if failures--; failures >= 0 {
			code = http.StatusServiceUnavailable
		}
		fmt.Println(req.Method, req.Header.Get("X-Retry"), code)
		return &http.Response{StatusCode: code, Body: http.NoBody, Request: req}, nil
	})
}

func send(ctx context.Context, httpClient *http.Client, method string) {
	req, err := http.NewRequestWithContext(ctx, method, "http://example.test/", http.NoBody)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = resp.Body.Close()
	fmt.Println("got", resp.StatusCode)
}

func ExampleNew() {
	retries, err := retry.New(retry.Config{MaxAttempts: 4, Backoff: backoff.Constant{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	httpClient := &http.Client{Transport: client.New(flaky(2), retries)}
	send(context.Background(), httpClient, http.MethodGet)
	send(context.Background(), &http.Client{Transport: client.New(flaky(2), retries)}, http.MethodPost)
	// Output:
	// GET  503
	// GET  503
	// GET  200
	// got 200
	// POST  503
	// got 503
}

// A Config that cannot be used is refused, with every field that is wrong.
func ExampleNew_invalid() {
	_, err := retry.New(retry.Config{MaxAttempts: -1, MaxRetryAfter: -time.Second})
	fmt.Println(err)
	// Output:
	// retry.Config.MaxAttempts = -1: must be >= 0 (0 means 3)
	// retry.Config.MaxRetryAfter = -1s: must be >= 0 (0 means 2m0s)
}

// One request may have its own settings, of this plugin and no other.
func ExamplePlugin_Override() {
	retries, err := retry.New(retry.Config{Backoff: backoff.Constant{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	httpClient := &http.Client{Transport: client.New(flaky(9), retries)}
	ctx := retries.Override(context.Background(), func(c *retry.Config) { c.Disabled = true })
	send(ctx, httpClient, http.MethodGet)
	ctx = retries.Override(context.Background(), func(c *retry.Config) { c.MaxAttempts, c.AnyMethod = 2, true })
	send(ctx, httpClient, http.MethodPost)
	// Output:
	// GET  503
	// got 503
	// POST  503
	// POST  503
	// got 503
}

// A retry may differ from the first attempt. Each one starts from the caller's
// request again.
func ExampleConfig_modifyRequest() {
	retries, err := retry.New(retry.Config{
		Backoff: backoff.Constant{},
		ModifyRequest: func(req *http.Request, retry int) error {
			req.Header.Add("X-Retry", fmt.Sprint(retry))
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	send(context.Background(), &http.Client{Transport: client.New(flaky(2), retries)}, http.MethodGet)
	// Output:
	// GET  503
	// GET 1 503
	// GET 2 200
	// got 200
}

// Two clients of one server share a budget: one retry for ten requests, and one
// each second besides.
func ExampleNewBudget() {
	budget, err := retry.NewBudget(0.1, 1)
	if err != nil {
		panic(err)
	}
	sent := 0
	down := roundTrip(func(req *http.Request) (*http.Response, error) {
		sent++
		return nil, io.ErrUnexpectedEOF
	})
	for _, name := range []string{"reads", "writes"} {
		retries, err := retry.New(retry.Config{Name: name, Backoff: backoff.Constant{}, Budget: budget})
		if err != nil {
			panic(err)
		}
		req, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://example.test", nil)
		_, err = retries.Transport(down).RoundTrip(req)
		fmt.Println(err)
	}
	fmt.Println(sent, "attempts, not 6")
	// Output:
	// unexpected EOF
	// unexpected EOF
	// 3 attempts, not 6
}

func ExamplePlugin_SetConfig() {
	retries, err := retry.New(retry.Config{Backoff: backoff.Constant{}})
	if err != nil {
		panic(err)
	}
	cfg := retries.Config()
	cfg.MaxBuffer = -1
	fmt.Println(retries.SetConfig(cfg))
	cfg.MaxBuffer, cfg.MaxAttempts = 0, 2
	fmt.Println(retries.SetConfig(cfg))
	send(context.Background(), &http.Client{Transport: retries.Transport(flaky(9))}, http.MethodGet)
	// Output:
	// retry.Config.MaxBuffer = -1: must be >= 0 (0 keeps nothing)
	// <nil>
	// GET  503
	// GET  503
	// got 503
}
