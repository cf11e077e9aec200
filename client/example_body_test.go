package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gresil/gresil/client"
)

// Each attempt has a body of its own, from GetBody, which http.NewRequest sets
// for strings and bytes.
func ExampleReplay() {
	ctx := context.Background()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://example.test/", strings.NewReader("hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	replay := client.NewReplay(req, 0)
	defer replay.Close()
	for range 2 {
		attempt, err := replay.Attempt(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		b, _ := io.ReadAll(attempt.Body)
		fmt.Println(string(b))
		_ = attempt.Body.Close()
	}
	// Output:
	// hello
	// hello
}

// A stream can be sent again as long as no more of it was read than is kept.
func ExampleNewReplay() {
	ctx := context.Background()
	stream := io.MultiReader(strings.NewReader("hello"))
	for _, limit := range []int64{0, 100} {
		req, _ := http.NewRequestWithContext(ctx, http.MethodPut, "http://example.test/", stream)
		replay := client.NewReplay(req, limit)
		attempt, _ := replay.Attempt(ctx)
		_, _ = io.ReadFull(attempt.Body, make([]byte, 2))
		fmt.Println(limit, replay.Prepare())
		_ = attempt.Body.Close()
		replay.Close()
	}
	// Output:
	// 0 client: request body cannot be sent again
	// 100 <nil>
}

// What is thrown away is drained within limits, so that its connection can be
// used again, and closed.
func ExampleDiscard() {
	resp := &http.Response{StatusCode: http.StatusServiceUnavailable, Body: io.NopCloser(strings.NewReader("try later"))}
	client.Discard(resp, client.Drain{Bytes: 4 << 10})
	rest, _ := io.ReadAll(resp.Body)
	fmt.Println(len(rest), "bytes left")
	// Output: 0 bytes left
}

// A permit of a bulkhead lives until the body is done with.
func ExampleOnBodyEnd() {
	resp := &http.Response{Body: io.NopCloser(strings.NewReader("hello"))}
	client.OnBodyEnd(resp, func() { fmt.Println("released") })
	fmt.Println("reading")
	_, _ = io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	// Output:
	// reading
	// released
}
