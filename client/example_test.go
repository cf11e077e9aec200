package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
)

// The order of the arguments does not matter.
func ExampleNew() {
	transport := client.New(nil, breaker.NewClient(nil, breaker.ClientOptions{}), retry.NewClient(nil, retry.ClientOptions{}))
	httpClient := &http.Client{Transport: transport}
	fmt.Println(httpClient.Transport)
	fmt.Println(len(transport.Check()), "mistakes")
	// Output:
	// Attempts retry.Client(default) > Attempt breaker.Client(default) > *http.Transport
	// 0 mistakes
}

// readonly is a plugin that rejects requests that can change something.
type readonly struct{}

func (readonly) Phase() client.Phase { return client.Overall }

func (readonly) Transport(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodGet || req.Method == http.MethodHead {
			return next.RoundTrip(req)
		}
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper must
		}
		return nil, fmt.Errorf("readonly: %w", core.ErrRejected)
	})
}

func ExamplePlugin() {
	base := roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	c := &http.Client{Transport: client.New(base, readonly{})}
	resp, err := c.Get("http://example.test/")
	if err == nil {
		fmt.Println(resp.StatusCode, resp.Body.Close())
	}
	_, err = c.Post("http://example.test/", "text/plain", strings.NewReader("x"))
	fmt.Println(err, client.NotSent(err))
	// Output:
	// 200 <nil>
	// Post "http://example.test/": readonly: rejected true
}

// A search is repeated although it is a POST, with its own policy.
func ExampleRoute() {
	searches := retry.NewClient(nil, retry.ClientOptions{Repeatable: func(*http.Request) bool { return true }})
	fmt.Println(client.New(nil, client.Route("POST api.example.com/search", searches)))
	// Output: Attempts retry.Client(default) of client.Route(POST api.example.com/search) > *http.Transport
}

// A stream can be sent again as long as everything that was read of it is kept.
func ExampleReplay() {
	ctx := context.Background()
	for _, limit := range []int64{0, 100} {
		stream := io.MultiReader(strings.NewReader("hello"))
		req, _ := http.NewRequestWithContext(ctx, http.MethodPut, "http://example.test/", stream)
		replay := client.NewReplay(req, limit)
		attempt, _ := replay.Attempt(ctx)
		_, _ = io.ReadFull(attempt.Body, make([]byte, 2))
		fmt.Println(limit, replay.Ready())
		_ = attempt.Body.Close()
		replay.Close()
	}
	// Output:
	// 0 client: request body cannot be sent again
	// 100 <nil>
}

func ExampleRetryAfter() {
	for _, value := range []string{"120", "1.5", "Sun, 06 Nov 1994 08:49:37 GMT", "soon"} {
		resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{
			"Date": {"Sun, 06 Nov 1994 08:49:07 GMT"}, "Retry-After": {value},
		}}
		fmt.Println(client.RetryAfter(resp))
	}
	// Output:
	// 2m0s true
	// 1.5s true
	// 31s true
	// 0s false
}
