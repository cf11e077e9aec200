package known_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/gate/known"
)

// GitHub refuses a call because of its secondary limit, while 4,000 calls remain of the primary one, until its reset in 55
// minutes. The pause is that of the secondary limit, and stops no call that is under other limits only.
func Example() {
	hub := core.Must(gate.New(gate.Config{
		Name:        "github",
		Limits:      []gate.Limit{{Name: "secondary"}, {Name: "core"}},
		Classify:    known.GitHub,
		MaxAttempts: 1,
		MaxWait:     -1,
	}))
	httpClient := &http.Client{Transport: hub.Transport(roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusForbidden,
			Header: http.Header{
				"Date":                  {"Wed, 25 Nov 2026 12:00:00 GMT"},
				"Retry-After":           {"60"},
				"X-Ratelimit-Remaining": {"4000"},
				"X-Ratelimit-Reset":     {"1795611300"},
				"X-Ratelimit-Resource":  {"core"},
			},
			Body: io.NopCloser(strings.NewReader(`{"message": "You have exceeded a secondary rate limit."}`)),
		}, nil
	}))}

	resp, err := httpClient.Get("https://api.github.com/user")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	fmt.Println(resp.StatusCode)

	_, err = httpClient.Get("https://api.github.com/user") // is not sent
	limited, ok := errors.AsType[*gate.LimitedError](err)
	fmt.Println(ok, limited.Limit, limited.RetryAfter().Minutes() < 2)
	// Output:
	// 403
	// true secondary true
}

// roundTrip stands for the network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
