package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/outbound/batch"
)

// sendAll adds records, and waits until they are done or have failed.
func sendAll(b *batch.Batcher[string, string], records ...string) {
	ctx := context.Background()
	for _, record := range records {
		_ = core.Must(b.Add(ctx, record))
	}
	go func() { _ = b.Run(ctx) }()
	fmt.Println("drained:", b.Drain(ctx))
	_ = b.Close()
}

// A permanent error of a whole call can be the fault of one record: halves are sent until it is found.
func Example_permanent() {
	contacts := core.Must(batch.New(batch.Config[string, string]{
		Concurrency: 1,
		Send: func(_ context.Context, _ string, records []string) ([]batch.Result[string], error) {
			fmt.Println(records)
			if slices.Contains(records, "bad") {
				return nil, core.Permanent(errors.New("400 Bad Request"))
			}
			return make([]batch.Result[string], len(records)), nil
		},
		Hooks: batch.Hooks{Failed: func(_ context.Context, info batch.Info) { fmt.Println("failed:", info.Records, info.Err) }},
	}))
	sendAll(contacts, "a", "b", "bad", "d")
	fmt.Println(contacts.Stats().Sent, "sent")
	// Output:
	// [a b bad d]
	// [a b]
	// [bad d]
	// [bad]
	// failed: 1 400 Bad Request
	// [d]
	// drained: <nil>
	// 3 sent
}

// A call that is made again has its key again, so that the vendor can recognize it.
func ExampleIdempotencyKey() {
	var first string
	contacts := core.Must(batch.New(batch.Config[string, string]{
		Backoff: backoff.Constant{Delay: time.Millisecond},
		Send: func(ctx context.Context, _ string, records []string) ([]batch.Result[string], error) {
			key := batch.IdempotencyKey(ctx) // of the header Idempotency-Key
			if first == "" {
				first = key
				return nil, errors.New("the connection was lost")
			}
			fmt.Println(records, key == first)
			return make([]batch.Result[string], len(records)), nil
		},
	}))
	sendAll(contacts, "a", "b")
	// Output:
	// [a b] true
	// drained: <nil>
}

// An exempt record does not wait for others.
func ExampleConfig_exempt() {
	contacts := core.Must(batch.New(batch.Config[contact, string]{
		Option: func(c contact) string { return c.List },
		Send:   merge,
		Exempt: func(c contact) bool { return c.List == "urgent" },
	}))
	ctx := context.Background()
	_ = core.Must(contacts.Add(ctx, contact{"news", "a@example.com"}))
	fmt.Println(contacts.Call(ctx, contact{"urgent", "b@example.com"}))
	for _, g := range core.Must(contacts.Groups(ctx)) {
		fmt.Println(g.Option, g.Pending)
	}
	// Output:
	// urgent 1
	// id of b@example.com <nil>
	// news 1
}

// Failed records are kept, and an operator sends them again when the cause is removed.
func ExampleBatcher_Retry() {
	var down atomic.Bool
	down.Store(true)
	failed := make(chan struct{})
	contacts := core.Must(batch.New(batch.Config[string, string]{
		MaxAttempts: 1,
		Send: func(_ context.Context, _ string, records []string) ([]batch.Result[string], error) {
			if down.Load() {
				return nil, errors.New("503 Service Unavailable")
			}
			return make([]batch.Result[string], len(records)), nil
		},
		Hooks: batch.Hooks{Failed: func(context.Context, batch.Info) { close(failed) }},
	}))
	ctx := context.Background()
	go func() { _ = contacts.Run(ctx) }()
	_ = core.Must(contacts.Add(ctx, "a"))
	_ = core.Must(contacts.Add(ctx, "b"))
	fmt.Println(contacts.Flush(ctx))
	<-failed
	for _, g := range core.Must(contacts.Groups(ctx)) {
		fmt.Println(g.Failed, g.LastError)
	}
	down.Store(false)
	fmt.Println(contacts.Retry(ctx, ""))
	fmt.Println(contacts.Drain(ctx), contacts.Stats().Sent)
	_ = contacts.Close()
	// Output:
	// <nil>
	// 2 503 Service Unavailable
	// 2 <nil>
	// <nil> 2
}

// Drain sends everything, except for paused groups.
func ExampleBatcher_Drain() {
	contacts := core.Must(batch.New(batch.Config[contact, string]{Send: merge, Option: func(c contact) string { return c.List }}))
	ctx := context.Background()
	_ = core.Must(contacts.Add(ctx, contact{"news", "a@example.com"}))
	_ = core.Must(contacts.Add(ctx, contact{"offers", "a@example.com"}))
	_ = contacts.Pause(ctx, "offers")
	go func() { _ = contacts.Run(ctx) }()
	fmt.Println(contacts.Drain(ctx))
	_, err := contacts.Add(ctx, contact{"news", "b@example.com"})
	fmt.Println(errors.Is(err, batch.ErrClosed))
	fmt.Println(contacts.Close())
	// Output:
	// news 1
	// batch: default: 1 records remain in paused groups
	// true
	// batch: default: 1 records were not sent: they are lost without a Store
}

// Two batchers with one store share their groups. NewMemory stands for the store of several processes.
func ExampleNewMemory() {
	cfg := batch.Config[contact, string]{Method: "merge", Send: merge, Option: func(c contact) string { return c.List }, Store: batch.NewMemory()}
	adds, sends := core.Must(batch.New(cfg)), core.Must(batch.New(cfg))
	ctx := context.Background()
	_ = core.Must(adds.Add(ctx, contact{"news", "a@example.com"}))
	_ = core.Must(sends.Add(ctx, contact{"news", "b@example.com"}))
	go func() { _ = sends.Run(ctx) }()
	fmt.Println(sends.Drain(ctx), sends.Stats().Sent)
	_ = errors.Join(adds.Close(), sends.Close())
	// Output:
	// news 2
	// <nil> 2
}

// Hooks report each call.
func ExampleBatcher_Observe() {
	contacts := core.Must(batch.New(batch.Config[contact, string]{Send: merge, Inline: true}))
	cancel := contacts.Observe(batch.Hooks{Called: func(_ context.Context, info batch.Info) {
		fmt.Println("called:", info.Method, info.Records, info.Err)
	}})
	_ = core.Must(contacts.Add(context.Background(), contact{Email: "a@example.com"}))
	cancel()
	_ = core.Must(contacts.Add(context.Background(), contact{Email: "b@example.com"}))
	// Output:
	//  1
	// called: default 1 <nil>
	//  1
}
