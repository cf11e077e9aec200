package standard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/standard"
)

func ExampleNewClient() {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()

	c, err := standard.NewClient(standard.ClientConfig{
		Total: timeout.Config{Limit: 5 * time.Second},
		Retry: retry.Config{MaxAttempts: 2},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	resp, err := c.Get(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	fmt.Println(resp.StatusCode, "after", calls, "attempts")

	_, err = standard.NewClient(standard.ClientConfig{Attempt: timeout.Config{Limit: time.Hour}})
	fmt.Println(err)
	// Output:
	// 200 after 2 attempts
	// standard.ClientConfig.Attempt.Limit = 1h0m0s: must be at most that of Total, 30s, or nothing is retried after it
}
