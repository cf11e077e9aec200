package retry_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/hashicorp/go-retryablehttp"

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
		fmt.Println(req.Method, req.Header.Get("X-Attempt"), code)
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

func ExampleNewClient() {
	policy, err := retry.New(retry.Config{MaxAttempts: 4, Backoff: backoff.Constant{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	retries := retry.NewClient(policy, retry.ClientOptions{})
	httpClient := &http.Client{Transport: client.New(flaky(1), retries)}
	send(context.Background(), httpClient, http.MethodGet)
	send(context.Background(), &http.Client{Transport: client.New(flaky(2), retries)}, http.MethodPost)
	once := policy.Override(context.Background(), func(c *retry.Config) { c.MaxAttempts = 1 })
	send(once, &http.Client{Transport: client.New(flaky(1), retries)}, http.MethodGet)
	fmt.Println(policy.Stats())
	// Output:
	// GET  503
	// GET  200
	// got 200
	// POST  503
	// got 503
	// GET  503
	// got 503
	// succeeded=0 recovered=1 failed=2 retries=1 suppressed=1
}

// Functions that were written for go-retryablehttp can be used unchanged.
func ExampleClientOptions() {
	policy, err := retry.New(retry.Config{Backoff: backoff.Exponential{Delay: 1, Max: 2}})
	if err != nil {
		fmt.Println(err)
		return
	}
	retries := retry.NewClient(policy, retry.ClientOptions{
		CheckRetry: retryablehttp.ErrorPropagatedRetryPolicy,
		Backoff:    retryablehttp.LinearJitterBackoff,
		ModifyRequest: func(req *http.Request, attempt int) error {
			req.Header.Set("X-Attempt", fmt.Sprint(attempt))
			return nil
		},
	})
	send(context.Background(), &http.Client{Transport: client.New(flaky(1), retries)}, http.MethodGet)
	// Output:
	// GET  503
	// GET 2 200
	// got 200
}

// The function that decides by default can be wrapped.
func ExampleCheckRetry() {
	policy, err := retry.New(retry.Config{Backoff: backoff.Constant{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	retries := retry.NewClient(policy, retry.ClientOptions{
		CheckRetry: func(ctx context.Context, resp *http.Response, err error) (bool, error) {
			if resp != nil && resp.Header.Get("X-Maintenance") != "" {
				return false, nil // it will take hours
			}
			return retry.CheckRetry(ctx, resp, err)
		},
	})
	send(context.Background(), &http.Client{Transport: client.New(flaky(1), retries)}, http.MethodGet)
	// Output:
	// GET  503
	// GET  200
	// got 200
}
