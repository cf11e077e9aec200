package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/resiltest"
)

func ExampleNewClient() {
	breakers, err := breaker.NewClient(breaker.ClientConfig{Window: 3})
	if err != nil {
		panic(err)
	}
	vendor := resiltest.NewScript(resiltest.Reply{Status: http.StatusBadGateway}) // in place of a network
	httpClient := &http.Client{Transport: client.New(vendor, breakers)}
	for range 4 {
		resp, err := httpClient.Get("https://api.example.com/users")
		if err != nil {
			fmt.Println("rejected:", errors.Is(err, breaker.ErrOpen), errors.Is(err, core.ErrRejected))
			continue
		}
		fmt.Println(resp.StatusCode)
		_ = resp.Body.Close()
	}
	fmt.Println(breakers.For("api.example.com").State())
	// Output:
	// 502
	// 502
	// 502
	// rejected: true true
	// open
}

func ExampleClient_Override() {
	breakers := core.Must(breaker.NewClient(breaker.ClientConfig{Initial: breaker.ForcedOpen}))
	httpClient := &http.Client{Transport: client.New(resiltest.NewScript(), breakers)}
	ctx := breakers.Override(context.Background(), func(c *breaker.ClientCall) { c.Disabled = true })
	for _, ctx := range []context.Context{context.Background(), ctx} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.com/health", http.NoBody)
		if err != nil {
			panic(err)
		}
		resp, err := httpClient.Do(req)
		if err != nil {
			fmt.Println(errors.Is(err, breaker.ErrOpen))
			continue
		}
		fmt.Println(resp.StatusCode)
		_ = resp.Body.Close()
	}
	// Output:
	// true
	// 200
}

func ExampleTripOnRetryAfter() {
	breakers := core.Must(breaker.NewClient(breaker.ClientConfig{Trip: breaker.TripOnRetryAfter}))
	vendor := answers(http.StatusServiceUnavailable, "120")
	httpClient := &http.Client{Transport: client.New(vendor, breakers)}
	for range 2 { // the first answer is enough
		resp, err := httpClient.Get("https://api.example.com/users")
		if err != nil {
			wait, _ := core.RetryAfter(err)
			fmt.Println("rejected for", wait.Round(time.Minute))
			continue
		}
		fmt.Println(resp.StatusCode)
		_ = resp.Body.Close()
	}
	// Output:
	// 503
	// rejected for 2m0s
}

func ExampleClientCall_classify() {
	breakers := core.Must(breaker.NewClient(breaker.ClientConfig{Window: 1}))
	httpClient := &http.Client{Transport: client.New(resiltest.NewScript(resiltest.Reply{Status: http.StatusNotFound}), breakers)}
	ctx := breakers.Override(context.Background(), func(c *breaker.ClientCall) {
		rest := c.Classify // of the Config
		c.Classify = func(ctx context.Context, resp *http.Response, err error) core.Outcome {
			if err == nil && resp.StatusCode == http.StatusNotFound {
				return core.Failure
			}
			return rest(ctx, resp, err)
		}
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.com/health", http.NoBody)
	if err != nil {
		panic(err)
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		panic(err)
	}
	_ = resp.Body.Close()
	fmt.Println(breakers.For("api.example.com").State())
	// Output: open
}

func ExampleClient_SetConfig() {
	breakers := core.Must(breaker.NewClient(breaker.ClientConfig{}))
	cfg := breakers.Config()
	cfg.FailureRate = 50
	fmt.Println(breakers.SetConfig(cfg))
	cfg.FailureRate = 0.2
	fmt.Println(breakers.SetConfig(cfg))
	fmt.Println(breakers.Group().Get("api.example.com").Snapshot().Threshold)
	// Output:
	// breaker.ClientConfig.FailureRate = 50: must be > 0 and <= 1 (0 means 0.5)
	// <nil>
	// 0.2
}
