package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
)

// hangs is a server that does not answer.
func hangs(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func Example() {
	total, err := timeout.NewTotal(timeout.Config{Limit: 30 * time.Second})
	if err != nil {
		panic(err)
	}
	attempt, err := timeout.NewAttempt(timeout.Config{Limit: time.Millisecond})
	if err != nil {
		panic(err)
	}
	rt := client.New(stub(hangs), attempt, total)
	fmt.Println(rt)
	_, err = (&http.Client{Transport: rt}).Get("http://example.test/")
	fmt.Println(err)
	fmt.Println(errors.Is(err, timeout.ErrTimeout), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// Overall *timeout.Client(total) > Attempt+10 *timeout.Client(attempt) > timeout_test.stub
	// Get "http://example.test/": timeout: "attempt" took longer than 1ms
	// true true
}

func ExampleClient_Override() {
	attempt := core.Must(timeout.NewAttempt(timeout.Config{Limit: time.Hour}))
	ctx := attempt.Override(context.Background(), func(c *timeout.Config) { c.Limit = time.Millisecond })
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.test/", nil)
	if err != nil {
		panic(err)
	}
	_, err = attempt.Transport(stub(hangs)).RoundTrip(req)
	fmt.Println(err)
	// Output: timeout: "attempt" took longer than 1ms
}

func ExampleClient_SetConfig() {
	attempts := core.Must(timeout.NewAttempt(timeout.Config{Name: "api", Limit: time.Second}))
	cfg := attempts.Config()
	cfg.Limit = 2 * time.Second
	fmt.Println(attempts.SetConfig(cfg))
	fmt.Println(attempts.SetConfig(timeout.Config{Name: "other"}))
	fmt.Println(attempts.Config().Limit)
	// Output:
	// <nil>
	// timeout.Config.Name = other: must stay api
	// 2s
}
