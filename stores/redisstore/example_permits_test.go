package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/stores/redisstore"
)

// Two instances of a service make at most three calls of an account at a time.
func ExampleStore_bulkhead() {
	addr, stop := redistest.ForExample()
	defer stop()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()

	instance := func() *bulkhead.Bulkhead {
		store := core.Must(redisstore.New(client, redisstore.Config{Timeout: time.Second}))
		return core.Must(bulkhead.New(bulkhead.Config{Name: "vendor", Limit: 3, Store: store, MaxQueue: -1}))
	}
	first, second := instance(), instance()
	ctx := context.Background()
	call, err := first.AcquireN(ctx, "account 7", 2)
	fmt.Println(err, call.Context().Err()) // the vendor is called with this context
	other, err := second.Acquire(ctx, "account 7")
	fmt.Println(err)
	_, err = second.Acquire(ctx, "account 7")
	fmt.Println(errors.Is(err, bulkhead.ErrFull))
	call.Done(core.Success)
	other.Done(core.Success)
	call, err = second.AcquireN(ctx, "account 7", 3)
	fmt.Println(err)
	call.Done(core.Success)
	// Output:
	// <nil> <nil>
	// <nil>
	// true
	// <nil>
}
