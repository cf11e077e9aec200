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

// errSlow is how this vendor refuses a call.
var errSlow = errors.New("slow down for 10 ms")

func slowVendor() dispatch.Config[string, int] {
	dialed := 0
	return dispatch.Config[string, int]{
		Name: "vendor",
		Dial: func(context.Context, string) (int, error) { dialed++; return dialed, nil },
		Classify: func(err error) (dispatch.Limited, bool) {
			return dispatch.Limited{RetryAfter: 10 * time.Millisecond}, errors.Is(err, errSlow)
		},
		Pad: time.Millisecond,
	}
}

func ExampleDo() {
	vendor, err := dispatch.New(slowVendor())
	if err != nil {
		fmt.Println(err)
		return
	}
	attempt := 0
	report, err := dispatch.Do(context.Background(), vendor, "account", func(_ context.Context, conn int) (string, error) {
		if attempt++; attempt == 1 {
			return "", errSlow
		}
		return fmt.Sprintf("report by connection %d, attempt %d", conn, attempt), nil
	})
	fmt.Println(report, err)
	fmt.Println(vendor.Close(context.Background()))
	// Output:
	// report by connection 1, attempt 2 <nil>
	// <nil>
}

func ExampleGaveUpError() {
	cfg := slowVendor()
	cfg.Attempts = 2
	vendor := core.Must(dispatch.New(cfg))
	_, err := dispatch.Do(context.Background(), vendor, "account", func(context.Context, int) (string, error) { return "", errSlow })
	fmt.Println(err)
	fmt.Println(errors.Is(err, dispatch.ErrRateLimited), errors.Is(err, errSlow))
	// Output:
	// dispatch: vendor: gave up after 2 rate limited attempts: slow down for 10 ms
	// true true
}

func ExampleStream() {
	vendor := core.Must(dispatch.New(slowVendor()))
	refused := false
	fetch := func(_ context.Context, _, at int) (dispatch.Page[string, int], error) {
		if at == 2 && !refused {
			refused = true
			return dispatch.Page[string, int]{}, errSlow // the page is fetched again after the pause
		}
		row := fmt.Sprintf("row of page %d", at)
		return dispatch.Page[string, int]{Rows: []string{row}, Next: at + 1, More: at < 3}, nil
	}
	for row, err := range dispatch.Stream(context.Background(), vendor, "account", 1, fetch) {
		fmt.Println(row, err)
	}
	// Output:
	// row of page 1 <nil>
	// row of page 2 <nil>
	// row of page 3 <nil>
}

func ExampleRoundTripper() {
	vendor := core.Must(dispatch.New(dispatch.Config[string, struct{}]{Name: "vendor", Capacity: 4, Pad: time.Millisecond}))
	base := resiltest.NewScript( // in production an *http.Transport, or nil
		resiltest.Reply{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}},
		resiltest.Reply{Body: "report"},
	)
	c := &http.Client{Transport: dispatch.RoundTripper(vendor, base, nil)}
	resp, err := c.Get("http://vendor.test/report")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Status, base.Calls())
	_ = resp.Body.Close()
	// Output: 200 OK 2
}

func ExampleDispatcher_Snapshot() {
	cfg := slowVendor()
	cfg.Attempts = 1
	cfg.Classify = func(err error) (dispatch.Limited, bool) {
		return dispatch.Limited{RetryAfter: time.Minute}, errors.Is(err, errSlow)
	}
	vendor := core.Must(dispatch.New(cfg))
	_, _ = dispatch.Do(context.Background(), vendor, "account", func(context.Context, int) (string, error) { return "", errSlow })
	s := vendor.Snapshot()
	fmt.Println(s.Name, s.Held[0].Scope, s.Stats.Limited, s.Stats.Idle)
	// Output: vendor vendor 1 1
}
