package cooldown_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
)

// After a hold one call tests whether the server takes calls again.
func ExamplePermit_Probe() {
	gate := core.Must(cooldown.New(cooldown.Config{}))
	defer gate.Observe(cooldown.Hooks{
		Held:    func(_ context.Context, info cooldown.Info) { fmt.Println("held", info.Key) },
		Resumed: func(_ context.Context, info cooldown.Info) { fmt.Println("resumed", info.Key) },
	})()
	ctx := context.Background()
	gate.Hold(ctx, "vendor", time.Millisecond)
	permit, err := gate.Acquire(ctx, "vendor") // waits until the hold is over
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(permit.Probe())
	permit.Hold(time.Millisecond) // not yet
	permit.Done(core.Ignored)
	if permit, err = gate.Acquire(ctx, "vendor"); err != nil {
		fmt.Println(err)
		return
	}
	permit.Done(core.Success)
	s := gate.Stats()
	fmt.Println(s.Holds, s.Resumed)
	// Output:
	// held vendor
	// true
	// held vendor
	// resumed vendor
	// 2 1
}

func ExampleCooldown_SetConfig() {
	gate := core.Must(cooldown.New(cooldown.Config{Name: "vendor"}))
	cfg := gate.Config()
	cfg.MaxHold = time.Minute
	fmt.Println(gate.SetConfig(cfg))
	gate.Hold(context.Background(), "", time.Hour)
	until, held := gate.Until("")
	fmt.Println(held, time.Until(until) <= time.Minute)
	fmt.Println(gate.SetConfig(cooldown.Config{Name: "other"}))
	// Output:
	// <nil>
	// true true
	// cooldown.Config.Name = other: must stay vendor
}
