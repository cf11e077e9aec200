package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
)

func ExampleNewClient() {
	breakers, err := breaker.NewClient(breaker.ClientConfig{Window: 3})
	if err != nil {
		panic(err)
	}
	vendor := &stub{status: http.StatusBadGateway} // in place of a network
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
	httpClient := &http.Client{Transport: client.New(&stub{status: http.StatusOK}, breakers)}
	ctx := breakers.Override(context.Background(), func(c *breaker.Call) { c.Disabled = true })
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
