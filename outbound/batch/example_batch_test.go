package batch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/pace"
)

type contact struct{ List, Email string }

// merge is one call to the vendor.
func merge(_ context.Context, list string, contacts []contact) ([]batch.Result[string], error) {
	results := make([]batch.Result[string], len(contacts))
	for i, c := range contacts {
		if !strings.Contains(c.Email, "@") {
			results[i].Err = core.Permanent(errors.New("not an address"))
			continue
		}
		results[i].Value = "id of " + c.Email
	}
	fmt.Println(list, len(contacts))
	return results, nil
}

func Example() {
	contacts, err := batch.New(batch.Config[contact, string]{
		Name:       "merge_contacts",
		Option:     func(c contact) string { return c.List },
		MaxRecords: 200,
		Send:       merge,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for i := range 379 {
		if _, err := contacts.Add(ctx, contact{"news", fmt.Sprintf("%d@example.com", i)}); err != nil {
			fmt.Println(err)
		}
	}
	ended := make(chan error)
	go func() { ended <- contacts.Run(ctx) }()
	fmt.Println(contacts.Drain(ctx), contacts.Stats().Sent)
	fmt.Println(contacts.Close(), <-ended)
	// Unordered output:
	// news 200
	// news 179
	// <nil> 379
	// <nil> <nil>
}

func ExampleBatcher_Call() {
	contacts := core.Must(batch.New(batch.Config[contact, string]{Send: merge, FlushSize: 2}))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = contacts.Run(ctx) }()
	var calls sync.WaitGroup
	for _, email := range []string{"a@example.com", "nonsense"} {
		calls.Go(func() {
			id, err := contacts.Call(ctx, contact{Email: email})
			fmt.Printf("%q %v\n", id, err)
		})
	}
	calls.Wait()
	// Unordered output:
	//  2
	// "id of a@example.com" <nil>
	// "" not an address
}

// All calls with one pacer and method share its rate.
func ExampleConfig_pacer() {
	limit := core.Must(pace.New(pace.Config{Name: "crm", Rates: []pace.Rate{{Calls: 100, Per: time.Minute, Burst: 5}}}))
	contacts := core.Must(batch.New(batch.Config[contact, string]{
		Name: "nightly", Method: "merge", Pacer: limit, Send: merge, MaxRecords: 2, Concurrency: 1,
	}))
	ctx := context.Background()
	for range 5 {
		_ = core.Must(contacts.Add(ctx, contact{"news", "a@example.com"}))
	}
	go func() { _ = contacts.Run(ctx) }()
	_, err := limit.Wait(ctx, "merge", 1) // a direct call of the same method
	fmt.Println(err, contacts.Drain(ctx), limit.Stats().Permits)
	_ = contacts.Close()
	// Output:
	//  2
	//  2
	//  1
	// <nil> <nil> 4
}

// With Unique, the last record of a key is sent.
func ExampleConfig_unique() {
	prices := core.Must(batch.New(batch.Config[string, int]{
		Unique: batch.UntilFlushed,
		Key:    func(s string) string { article, _, _ := strings.Cut(s, " "); return article },
		Send: func(_ context.Context, _ string, all []string) ([]batch.Result[int], error) {
			fmt.Println(strings.Join(all, ", "))
			return make([]batch.Result[int], len(all)), nil
		},
	}))
	ctx := context.Background()
	for _, price := range []string{"apple 3", "pear 5", "apple 4"} {
		_ = core.Must(prices.Add(ctx, price))
	}
	go func() { _ = prices.Run(ctx) }()
	_ = prices.Drain(ctx)
	_ = prices.Close()
	// Output: apple 4, pear 5
}

// Inline sends each record at once, for tests of code that adds records.
func ExampleConfig_inline() {
	contacts := core.Must(batch.New(batch.Config[contact, string]{
		Send: merge, Inline: true, Option: func(c contact) string { return c.List },
	}))
	id, err := contacts.Call(context.Background(), contact{"news", "a@example.com"})
	fmt.Println(id, err)
	// Output:
	// news 1
	// id of a@example.com <nil>
}

// Groups can be looked at, paused, deleted and retried by an operator.
func ExampleBatcher_Groups() {
	contacts := core.Must(batch.New(batch.Config[contact, string]{Send: merge, Option: func(c contact) string { return c.List }}))
	ctx := context.Background()
	_ = core.Must(contacts.Add(ctx, contact{"news", "a@example.com"}))
	_ = contacts.Pause(ctx, "news")
	for _, g := range core.Must(contacts.Groups(ctx)) {
		fmt.Println(g.Option, g.Pending, g.Paused, g.NextFlush.Sub(g.Oldest))
	}
	fmt.Println(contacts.Delete(ctx, "news"))
	// Output:
	// news 1 true 1m0s
	// 1 <nil>
}
