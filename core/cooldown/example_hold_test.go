package cooldown_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
)

func Example() {
	gate := core.Must(cooldown.New(cooldown.Config{Name: "vendor"}))
	ctx := context.Background()
	call := func(account string) {
		permit, err := gate.Acquire(ctx, account)
		if err != nil {
			wait, _ := core.RetryAfter(err)
			fmt.Println(account, errors.Is(err, core.ErrRejected), wait.Round(time.Minute))
			return
		}
		outcome := core.Ignored
		defer func() { permit.Done(outcome) }()
		fmt.Println(account, "sent")
		if account == "busy" { // the vendor says: not before a minute is over
			gate.Hold(ctx, account, time.Minute)
			return
		}
		outcome = core.Success
	}
	call("busy")
	call("busy")
	call("other")
	// Output:
	// busy sent
	// busy true 1m0s
	// other sent
}

// A hold can be ended by hand. A single call goes out first, as after any.
func ExampleCooldown_Release() {
	gate := core.Must(cooldown.New(cooldown.Config{MaxQueue: -1})) // nobody waits
	ctx := context.Background()
	gate.Hold(ctx, "vendor", time.Hour)
	fmt.Println(gate.Release("vendor"))
	probe, err := gate.Acquire(ctx, "vendor")
	fmt.Println(err)
	_, err = gate.Acquire(ctx, "vendor")
	fmt.Println(err)
	probe.Done(core.Success)
	_, err = gate.Acquire(ctx, "vendor")
	fmt.Println(err)
	// Output:
	// true
	// <nil>
	// cooldown: default: no call admitted in time
	// <nil>
}

// The error of a call that cannot wait for the end of a hold has the time that is left.
func ExampleHeldError() {
	gate := core.Must(cooldown.New(cooldown.Config{Name: "vendor", MaxWait: time.Second}))
	gate.Hold(context.Background(), "account", time.Minute)
	_, err := gate.Acquire(context.Background(), "account")
	if held, ok := errors.AsType[*cooldown.HeldError](err); ok {
		fmt.Println(held.Name, held.Key, held.RetryAfter().Round(time.Minute))
	}
	fmt.Println(errors.Is(err, cooldown.ErrHeld), errors.Is(err, core.ErrRejected))
	// Output:
	// vendor account 1m0s
	// true true
}
