package gate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/gate"
)

// An http.Client that stays below a limit of its vendor, and observes the pauses that the vendor asks for. Any SDK can use it.
func Example() {
	ads, err := gate.New(gate.Config{
		Name:     "ads",
		InFlight: 8,
		Limits:   []gate.Limit{{N: 90, Per: time.Second}},
		MaxWait:  time.Minute,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	vendor := roundTrip(func(r *http.Request) (*http.Response, error) { // stands for the network
		return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Body: http.NoBody, Request: r}, nil
	})
	httpClient := &http.Client{Transport: ads.Transport(vendor)}

	resp, err := httpClient.Get("https://api.example.com/price/shoes")
	switch {
	case errors.Is(err, core.ErrRejected): // nothing was sent
		wait, _ := core.RetryAfter(err)
		fmt.Println("busy, try again in", wait)
	case err != nil:
		fmt.Println(err)
	default:
		defer func() { _ = resp.Body.Close() }()
		fmt.Println(resp.Status)
	}
	fmt.Println(ads.Close(context.Background())) // waits for calls that are made
	// Output:
	// 200 OK
	// <nil>
}

// A rate.Limiter of golang.org/x/time can be used unchanged: the gate waits for it, and adds the pauses.
func Example_limiter() {
	limiter := rate.NewLimiter(20, 5)
	crm := core.Must(gate.New(gate.Config{Name: "crm", Limiter: limiter, MaxWait: -1}))
	sent := 0
	for range 10 { // at once, and without waiting
		if err := crm.Do(context.Background(), gate.Call{}, func(context.Context) error { sent++; return nil }); err != nil {
			fmt.Println(errors.Is(err, gate.ErrLimited))
			break
		}
	}
	fmt.Println(sent)
	// Output:
	// true
	// 5
}

// A call without HTTP, to a vendor that reports a limit by an error of its own.
func ExampleGate_Do() {
	speech := core.Must(gate.New(gate.Config{
		Name:   "speech",
		Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}, // an account that is paused stops no other
		Classify: func(_ *http.Response, err error) gate.Signal {
			var quota *quotaError
			return gate.Signal{Limited: errors.As(err, &quota), Limit: "account", Pause: 10 * time.Millisecond}
		},
	}))
	attempts := 0
	err := speech.Do(context.Background(), gate.Call{Keys: map[string]string{"account": "a1"}}, func(context.Context) error {
		if attempts++; attempts == 1 {
			return &quotaError{}
		}
		return nil
	})
	fmt.Println(attempts, err)
	// Output: 2 <nil>
}

type quotaError struct{}

func (*quotaError) Error() string { return "quota exhausted" }

// Connections by key: a call of another key takes the place of an idle one.
func ExampleDo() {
	vendor := core.Must(gate.New(gate.Config{}))
	pool := core.Must(gate.NewPool(vendor, gate.PoolConfig[string, string]{
		Capacity: 1,
		Dial: func(_ context.Context, service string) (string, error) {
			fmt.Println("dial", service)
			return "connection to " + service, nil
		},
		Close: func(service, _ string) { fmt.Println("close", service) },
	}))
	for _, service := range []string{"search", "search", "reports"} {
		n, err := gate.Do(context.Background(), pool, service, func(_ context.Context, conn string) (int, error) { return len(conn), nil })
		fmt.Println(n, err)
	}
	fmt.Println(vendor.Close(context.Background()))
	// Output:
	// dial search
	// 20 <nil>
	// 20 <nil>
	// close search
	// dial reports
	// 21 <nil>
	// close reports
	// <nil>
}

// The rows of all pages of a report. The stream keeps its connection, and a page that the vendor refuses is fetched again.
func ExampleStream() {
	vendor := core.Must(gate.New(gate.Config{}))
	pool := core.Must(gate.NewPool(vendor, gate.PoolConfig[string, string]{
		Dial: func(_ context.Context, service string) (string, error) { return "connection to " + service, nil },
	}))
	pages := map[string][]string{"first": {"a", "b"}, "second": {"c"}}
	fetch := func(_ context.Context, conn, page string) (rows []string, next string, err error) {
		if page == "first" {
			next = "second" // an empty one ends the stream
		}
		return pages[page], next, nil
	}
	for row, err := range gate.Stream(context.Background(), pool, "reports", "first", fetch) {
		fmt.Println(row, err)
	}
	// Output:
	// a <nil>
	// b <nil>
	// c <nil>
}

// A vendor that reports a limit by the status 200 and a header field of its own.
func ExampleClassify() {
	classify := func(resp *http.Response, err error) gate.Signal {
		if err == nil && resp.Header.Get("X-Quota") == "exhausted" {
			return gate.Signal{Limited: true, Pause: time.Minute}
		}
		return gate.Classify(resp, err)
	}
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"X-Quota": {"exhausted"}}}
	fmt.Println(classify(answer, nil).Limited, gate.Classify(answer, nil).Limited)
	// Output: true false
}

// A scheduler reserves the times at which calls can be made, and plans the calls.
func ExampleGate_Reserve() {
	satellite := core.Must(gate.New(gate.Config{Limits: []gate.Limit{{N: 6, Per: time.Minute}}, MaxWait: 15 * time.Second}))
	now := time.Now()
	for range 3 {
		permit, err := satellite.Reserve(context.Background(), gate.Call{})
		if err != nil {
			fmt.Println("booked out:", errors.Is(err, gate.ErrLimited))
			break
		}
		fmt.Println("in", permit.At.Sub(now).Round(time.Second))
		defer permit.Cancel() // since no call was made
	}
	// Output:
	// in 0s
	// in 10s
	// booked out: true
}

// An export gives way to a call that somebody waits for.
func ExampleBackground() {
	crm := core.Must(gate.New(gate.Config{Name: "crm", InFlight: 1}))
	ctx := context.Background()
	var group sync.WaitGroup
	wait := func(ctx context.Context, name string) { // returns when the call waits
		before := crm.Stats().Waiting
		group.Go(func() {
			_ = crm.Do(ctx, gate.Call{}, func(context.Context) error { fmt.Println(name); return nil })
		})
		for crm.Stats().Waiting == before {
			time.Sleep(time.Millisecond)
		}
	}
	_ = crm.Do(ctx, gate.Call{}, func(context.Context) error { // the only place
		wait(gate.Background(ctx), "export")
		wait(ctx, "somebody waits for this")
		return nil
	})
	group.Wait()
	// Output:
	// somebody waits for this
	// export
}

// An estimate of 60 tokens is settled at the 20 that the answer has cost.
func ExampleGate_Settle() {
	model := core.Must(gate.New(gate.Config{
		Name: "model", Limits: []gate.Limit{{Name: "tokens", N: 1000, Per: time.Minute, Burst: 100}}, MaxWait: -1,
	}))
	question := gate.Call{Costs: map[string]int64{"tokens": 60}}
	for range 4 {
		fmt.Println(model.Do(context.Background(), question, func(ctx context.Context) error {
			return model.Settle(ctx, map[string]int64{"tokens": 20})
		}) == nil)
	}
	// Output:
	// true
	// true
	// true
	// false
}

// A vendor that says in headers what is left.
func ExampleHeaders() {
	classify := gate.Headers(
		gate.Header{Name: "X-Rate-Remaining", Format: gate.Remaining, Limit: "requests"},
		gate.Header{Name: "X-Rate-Reset", Format: gate.ResetIn, Limit: "requests"},
	)
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"X-Rate-Remaining": {"0"}, "X-Rate-Reset": {"30"}}}
	for _, quota := range classify(resp, nil).Quotas {
		fmt.Println(quota.Limit, quota.Remaining, quota.Reset)
	}
	// Output:
	// requests 0 30s
}
