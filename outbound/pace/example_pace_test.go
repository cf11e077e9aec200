package pace_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/pace"
	"github.com/gresil/gresil/stores/share"
)

func ExamplePacer_Wait() {
	vendor, err := pace.New(pace.Config{
		Name:  "telephony",
		Rates: []pace.Rate{{Calls: 500, Per: time.Second}, {Calls: 10_000, Per: time.Minute}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = vendor.Close() }()
	ctx := context.Background()
	for range 3 {
		permit, err := vendor.Wait(ctx, "account", 1)
		fmt.Println(permit.Stale(), err) // call the vendor here
	}
	s := vendor.Stats()
	fmt.Println(s.Permits) // and s.Waited: the second and the third have waited for 2 ms each
	// Output:
	// false <nil>
	// false <nil>
	// false <nil>
	// 3
}

func ExamplePacer_Reserve() {
	vendor := core.Must(pace.New(pace.Config{
		Name:    "telephony",
		Rates:   []pace.Rate{{Calls: 1, Per: time.Minute}},
		MaxWait: 90 * time.Second,
	}))
	ctx := context.Background()
	for range 3 {
		permit, err := vendor.Reserve(ctx, "account", 1)
		var limited *pace.LimitedError
		switch {
		case errors.As(err, &limited):
			fmt.Println("reserve again", time.Until(limited.At).Round(time.Minute))
		case err == nil:
			fmt.Println("call", time.Until(permit.At).Round(time.Minute)) // unless permit.Stale() then
		}
	}
	// Output:
	// call 0s
	// call 1m0s
	// reserve again 2m0s
}

func ExamplePacer_Transport() {
	vendor := core.Must(pace.New(pace.Config{Name: "telephony", Rates: []pace.Rate{{Calls: 100, Per: time.Second}}}))
	base := resiltest.NewScript(resiltest.Reply{Body: "accepted"}) // in production an *http.Transport, or nil
	c := &http.Client{Transport: client.New(base, vendor)}
	for range 3 {
		resp, err := c.Get("http://vendor.test/call")
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = resp.Body.Close()
	}
	fmt.Println(base.Calls(), vendor.Stats().Permits)
	// Output: 3 3
}

func ExampleDo() {
	vendor := core.Must(pace.New(pace.Config{Name: "telephony", Rates: []pace.Rate{{Calls: 100, Per: time.Second}}}))
	id, err := pace.Do(context.Background(), vendor, "account", 1, func(context.Context) (string, error) { return "call 17", nil })
	fmt.Println(id, err)
	// Output: call 17 <nil>
}

func ExampleConfig() {
	_, err := pace.New(pace.Config{Rates: []pace.Rate{{Calls: 0, Per: time.Second}}, Slack: time.Second})
	fmt.Println(err)
	// Output:
	// pace.Config.Rates[0].Calls = 0: must be 1 to 1073741824
	// pace.Config.Slack = 1s: must be below Per, 1s
}

// A vendor that reports its own limit.
func ExampleConfig_refresh() {
	vendor := core.Must(pace.New(pace.Config{
		Name:         "mail",
		Rates:        []pace.Rate{{Calls: 10, Per: time.Minute}}, // until the first answer
		RefreshEvery: time.Hour,
		Refresh: func(context.Context) ([]pace.Rate, error) {
			return []pace.Rate{{Calls: 6000, Per: time.Minute}}, nil // GET /rest/api/ratelimit
		},
		Hooks: pace.Hooks{Refreshed: func(_ context.Context, info pace.Info) { fmt.Println("rates:", info.Rates) }},
	}))
	_, err := vendor.Wait(context.Background(), "", 1)
	fmt.Println(err)
	// Output:
	// rates: [{6000 1m0s 0}]
	// <nil>
}

// A campaign with many calls does not make another one wait until they are made.
func ExampleConfig_fair() {
	type campaign struct{} // the key of its name in a context
	vendor := core.Must(pace.New(pace.Config{
		Rates: []pace.Rate{{Calls: 20, Per: time.Second}},
		Fair:  func(ctx context.Context) string { return ctx.Value(campaign{}).(string) },
	}))
	var calls sync.WaitGroup
	for _, name := range []string{"summer", "summer", "summer", "summer", "summer", "winter"} {
		calls.Go(func() {
			_, err := vendor.Wait(context.WithValue(context.Background(), campaign{}, name), "account", 1)
			fmt.Println(name, err)
		})
	}
	calls.Wait() // of those that wait together, winter is the next, not the last
	// Unordered output:
	// summer <nil>
	// summer <nil>
	// summer <nil>
	// summer <nil>
	// summer <nil>
	// winter <nil>
}

// A vendor that counts the calls of the last minute accepts all of them at once after a pause.
func ExampleConfig_mode() {
	vendor := core.Must(pace.New(pace.Config{
		Rates: []pace.Rate{{Calls: 3, Per: time.Minute}},
		Mode:  pace.SlidingLog, // Rolling would give one permit in 20 seconds
	}))
	for range 4 {
		permit := core.Must(vendor.Reserve(context.Background(), "account", 1))
		fmt.Println(time.Until(permit.At).Round(time.Minute))
	}
	// Output:
	// 0s
	// 0s
	// 0s
	// 1m0s
}

func ExamplePacer_Snapshot() {
	vendor := core.Must(pace.New(pace.Config{Name: "telephony", Rates: []pace.Rate{{Calls: 1, Per: time.Minute}}}))
	for range 3 {
		_ = core.Must(vendor.Reserve(context.Background(), "account", 1))
	}
	s := vendor.Snapshot()
	fmt.Println(s.Name, s.Mode, s.Rates, s.Stats.Permits)
	for _, k := range s.Keys {
		fmt.Println(k.Key, "ahead", k.Ahead.Round(time.Minute))
	}
	// Output:
	// telephony rolling [{1 1m0s 0}] 3
	// account ahead 2m0s
}

// OnStoreError decides about calls while the Store is unavailable. In a service, the store is one that
// several processes use, for example that of redisstore.
func ExampleFailurePolicy() {
	remote := &ratelimittest.Failing{Store: &ratelimittest.Memory{}}
	store := core.Must(share.New(remote, share.Config{Instances: 2})) // for Local
	defer func() { _ = store.Close() }()
	remote.Down()
	for _, policy := range []pace.FailurePolicy{pace.Deny, pace.Local, pace.Allow} {
		vendor := core.Must(pace.New(pace.Config{
			Name: policy.String(), Rates: []pace.Rate{{Calls: 100, Per: time.Second}}, Store: store, OnStoreError: policy,
		}))
		_, err := vendor.Wait(context.Background(), "account", 1)
		fmt.Println(policy, err == nil, errors.Is(err, pace.ErrStore))
	}
	// Output:
	// deny false true
	// local true false
	// allow true false
}
