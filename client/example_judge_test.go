package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
)

func ExampleClassify() {
	ctx, cancel := context.WithCancel(context.Background())
	fmt.Println(client.Classify(ctx, &http.Response{StatusCode: http.StatusOK}, nil))
	fmt.Println(client.Classify(ctx, &http.Response{StatusCode: http.StatusTooManyRequests}, nil))
	fmt.Println(client.Classify(ctx, &http.Response{StatusCode: http.StatusBadGateway}, nil))
	fmt.Println(client.Classify(ctx, nil, errors.New("connection reset")))
	cancel()
	fmt.Println(client.Classify(ctx, nil, errors.New("connection reset")))
	// Output:
	// success
	// success
	// failure
	// failure
	// ignored
}

func ExampleIdempotent() {
	post := &http.Request{Method: http.MethodPost, Header: http.Header{}}
	fmt.Println(client.Idempotent(post))
	post.Header.Set("Idempotency-Key", "order-17")
	fmt.Println(client.Idempotent(post))
	// Output:
	// false
	// true
}

func ExampleNotSent() {
	fmt.Println(client.NotSent(&net.OpError{Op: "dial", Err: errors.New("connection refused")}))
	fmt.Println(client.NotSent(&net.OpError{Op: "read", Err: errors.New("connection reset")}))
	// Output:
	// true
	// false
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

// A plugin may answer with a response. Those further out still see a rejection.
func ExampleReject() {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://example.test/", http.NoBody)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp := client.Reject(req, http.StatusServiceUnavailable, rejection{1500 * time.Millisecond})
	fmt.Println(resp.Status, resp.Header.Get("Retry-After"))
	fmt.Println(client.Rejected(resp), client.Classify(req.Context(), resp, nil))
	// Output:
	// 503 Service Unavailable 2
	// breaker: open ignored
}
