package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/plugins/retry"
)

// Functions that were written for go-retryablehttp fit as they are.
func ExampleFromBackoff() {
	retries, err := retry.New(retry.Config{
		MaxAttempts: 4,
		CheckRetry:  retryablehttp.ErrorPropagatedRetryPolicy,
		Delay:       retry.FromBackoff(retryablehttp.LinearJitterBackoff, time.Millisecond, 2*time.Millisecond),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	send(context.Background(), &http.Client{Transport: client.New(flaky(1), retries)}, http.MethodGet)
	// Output:
	// GET  503
	// GET  200
	// got 200
}

// What decides by default can be wrapped.
func ExampleDefaultCheckRetry() {
	retries, err := retry.New(retry.Config{
		Backoff: backoff.Constant{},
		CheckRetry: func(ctx context.Context, resp *http.Response, err error) (bool, error) {
			if resp != nil && resp.Header.Get("X-Maintenance") != "" {
				return false, nil // it will take hours
			}
			return retry.DefaultCheckRetry(ctx, resp, err)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	send(context.Background(), &http.Client{Transport: client.New(flaky(1), retries)}, http.MethodGet)
	// Output:
	// GET  503
	// GET  200
	// got 200
}

// The server must not mind that a POST is repeated.
func ExampleOnServerError() {
	cfg := retry.Config{Backoff: backoff.Constant{}, AnyMethod: true}
	retry.OnServerError(&cfg)
	retries, err := retry.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	send(context.Background(), &http.Client{Transport: client.New(flaky(1), retries)}, http.MethodPost)
	// Output:
	// POST  503
	// POST  200
	// got 200
}

func ExampleOnTimeout() {
	base := roundTrip(func(*http.Request) (*http.Response, error) {
		fmt.Println("refused")
		return nil, fmt.Errorf("connection refused")
	})
	cfg := retry.Config{Backoff: backoff.Constant{}}
	retry.OnTimeout(&cfg)
	retries, err := retry.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	send(context.Background(), &http.Client{Transport: client.New(base, retries)}, http.MethodGet)
	// Output:
	// refused
	// Get "http://example.test/": connection refused
}

func ExampleConfig_onRetry() {
	retries, err := retry.New(retry.Config{
		Backoff: backoff.Constant{Delay: time.Millisecond},
		OnRetry: func(_ context.Context, r retry.Retry) {
			fmt.Println("attempt", r.Attempt, "after", r.Wait, "because of", r.Err)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	send(context.Background(), &http.Client{Transport: client.New(flaky(1), retries)}, http.MethodGet)
	fmt.Println(retries.Stats().Recovered, "recovered")
	// Output:
	// GET  503
	// attempt 2 after 1ms because of retry: status 503 Service Unavailable
	// GET  200
	// got 200
	// 1 recovered
}

// A POST that might have arrived is not sent again. Its error contains the reason.
func ExampleErrMaybeProcessed() {
	base := roundTrip(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })
	retries, err := retry.New(retry.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	send(context.Background(), &http.Client{Transport: client.New(base, retries)}, http.MethodPost)
	// Output:
	// Post "http://example.test/": retry: POST was not repeated (the server may have processed it): unexpected EOF
}

// Who gives up in the wait learns what the last answer was.
func ExampleStatusError() {
	ctx, cancel := context.WithCancel(context.Background())
	retries, err := retry.New(retry.Config{OnRetry: func(context.Context, retry.Retry) { cancel() }})
	if err != nil {
		fmt.Println(err)
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.test/", http.NoBody)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = retries.Transport(flaky(1)).RoundTrip(req)
	if last, ok := errors.AsType[*retry.StatusError](err); ok {
		fmt.Println(last.StatusCode, errors.Is(err, context.Canceled))
	}
	// Output:
	// GET  503
	// 503 true
}
