package redisbatch_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/batch/redisbatch"
)

// One process adds records and ends. Another one sends them.
func Example() {
	addr, stop := redistest.ForExample()
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	ctx := context.Background()

	process := func() *batch.Batcher[string, string] {
		store := core.Must(redisbatch.New(client, redisbatch.Config{Prefix: "shop"}))
		return core.Must(batch.New(batch.Config[string, string]{
			Method: "contacts/merge", Store: store,
			Send: func(_ context.Context, _ string, records []string) ([]batch.Result[string], error) {
				fmt.Println("merge", strings.Join(records, ", "))
				return make([]batch.Result[string], len(records)), nil
			},
		}))
	}
	first := process()
	for _, name := range []string{"Ada", "Grace", "Barbara"} {
		if _, err := first.Add(ctx, name); err != nil {
			fmt.Println(err)
		}
	}
	_ = first.Close()

	second := process()
	running, end := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- second.Run(running) }()
	fmt.Println(second.Drain(ctx))
	end()
	fmt.Println(<-ended)
	// Output:
	// merge Ada, Grace, Barbara
	// <nil>
	// <nil>
}
