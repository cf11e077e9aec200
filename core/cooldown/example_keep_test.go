package cooldown_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
)

// With Keep, the first call after a hold is a probe, however long no call came.
func ExampleConfig_keep() {
	for _, keep := range []bool{false, true} {
		gate := core.Must(cooldown.New(cooldown.Config{Name: "vendor", Keep: keep}))
		gate.Hold(context.Background(), "", time.Millisecond)
		time.Sleep(10 * time.Millisecond) // no call comes for longer than the hold
		permit, err := gate.Acquire(context.Background(), "")
		fmt.Println(permit.Probe(), err)
		permit.Done(core.Success) // the key is forgotten
		permit, err = gate.Acquire(context.Background(), "")
		fmt.Println(permit.Probe(), err)
	}
	// Output:
	// false <nil>
	// false <nil>
	// true <nil>
	// false <nil>
}

// Between Acquire and the call something can hold the key.
func ExamplePermit_Ready() {
	gate := core.Must(cooldown.New(cooldown.Config{Name: "vendor"}))
	permit, _ := gate.Acquire(context.Background(), "account")
	fmt.Println(permit.Ready())
	gate.Hold(context.Background(), "account", time.Minute) // as another call's response asks
	fmt.Println(permit.Ready())
	permit.Done(core.Ignored) // the call is not made
	// Output:
	// true
	// false
}
