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
