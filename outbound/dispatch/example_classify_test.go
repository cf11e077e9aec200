package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/dispatch"
)

// A classifier for the errors of a vendor's own client, before those that are known.
func ExampleFirstOf() {
	errBusy := errors.New("vendor: account busy")
	classify := dispatch.FirstOf(func(err error) (dispatch.Limited, bool) {
		return dispatch.Limited{RetryAfter: time.Minute, Scope: dispatch.ScopeAccount}, errors.Is(err, errBusy)
	}, dispatch.Classify)
	for _, err := range []error{errBusy, &dispatch.StatusError{StatusCode: http.StatusTooManyRequests}, errors.New("not found")} {
		limit, ok := classify(err)
		fmt.Println(ok, limit.RetryAfter, limit.Scope)
	}
	// Output:
	// true 1m0s account
	// true 0s vendor
	// false 0s vendor
}

// CheckResponse makes an error of a response that can mean a limit.
func ExampleCheckResponse() {
	vendor := core.Must(dispatch.New(dispatch.Config[string, *http.Client]{
		Cooldown: time.Millisecond, // if there is no Retry-After
		Dial: func(context.Context, string) (*http.Client, error) {
			return &http.Client{Transport: resiltest.NewScript(
				resiltest.Reply{Status: http.StatusTooManyRequests},
				resiltest.Reply{Body: "report"},
			)}, nil
		},
	}))
	status, err := dispatch.Do(context.Background(), vendor, "account", func(_ context.Context, c *http.Client) (string, error) {
		resp, err := c.Get("http://vendor.test/report")
		if err != nil {
			return "", err
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.Status, dispatch.CheckResponse(resp)
	})
	fmt.Println(status, err, vendor.Stats().Limited)
	// Output: 200 OK <nil> 1
}

// A limit of an account holds only the calls of this account.
func ExampleConfig_account() {
	cfg := slowVendor()
	cfg.Attempts = 1
	cfg.Account = func(key string) string { return key }
	cfg.Classify = func(err error) (dispatch.Limited, bool) {
		return dispatch.Limited{RetryAfter: time.Minute, Scope: dispatch.ScopeAccount}, errors.Is(err, errSlow)
	}
	vendor := core.Must(dispatch.New(cfg))
	_, err := dispatch.Do(context.Background(), vendor, "a", func(context.Context, int) (string, error) { return "", errSlow })
	fmt.Println(errors.Is(err, dispatch.ErrRateLimited))
	report, err := dispatch.Do(context.Background(), vendor, "b", func(context.Context, int) (string, error) { return "report", nil })
	fmt.Println(report, err)
	for _, held := range vendor.Snapshot().Held {
		fmt.Println(held.Scope, held.Account)
	}
	// Output:
	// true
	// report <nil>
	// account a
}

func ExampleDispatcher_Observe() {
	vendor := core.Must(dispatch.New(slowVendor()))
	vendor.Observe(dispatch.Hooks{
		Held:    func(_ context.Context, info dispatch.Info) { fmt.Println(info.Name, "held", info.Scope) },
		Resumed: func(_ context.Context, info dispatch.Info) { fmt.Println(info.Name, "resumed", info.Scope) },
	})
	attempt := 0
	_, err := dispatch.Do(context.Background(), vendor, "account", func(context.Context, int) (string, error) {
		if attempt++; attempt == 1 {
			return "", errSlow
		}
		return "report", nil
	})
	fmt.Println(err)
	// Output:
	// vendor held vendor
	// vendor resumed vendor
	// <nil>
}

// An error of gRPC limits a call by its code, and has the wait in its details.
func ExampleClassifyGRPC() {
	const resourceExhausted, notFound = 8, 5
	for _, err := range []error{
		grpc(resourceExhausted, detail("google.rpc.RetryInfo", message(1, number(1, 15)))), // an error of google.golang.org/grpc
		grpc(resourceExhausted),
		grpc(notFound),
	} {
		limit, ok := dispatch.ClassifyGRPC(err)
		fmt.Println(ok, limit.RetryAfter, limit.Scope)
	}
	// Output:
	// true 15s vendor
	// true 0s vendor
	// false 0s vendor
}

// The REST interface of the Google Ads API has the limit in the body.
func ExampleClassifyGoogleAds() {
	limit, ok := dispatch.ClassifyGoogleAds(&dispatch.StatusError{StatusCode: http.StatusTooManyRequests, Body: []byte(`{"error": {"details": [{"errors": [{
		"errorCode": {"quotaError": "RESOURCE_TEMPORARILY_EXHAUSTED"},
		"details": {"quotaErrorDetails": {"rateScope": "ACCOUNT", "retryDelay": "30s"}}
	}]}]}}`)})
	fmt.Println(ok, limit.RetryAfter, limit.Scope)
	// Output: true 30s account
}
