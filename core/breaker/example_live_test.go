package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
)

func ExampleConfig_slowCall() {
	b := core.Must(breaker.New(breaker.Config{Window: 2, SlowCall: time.Nanosecond, SlowRate: 0.5}))
	for range 2 {
		_, _ = breaker.Do(context.Background(), b, func(context.Context) (int, error) {
			time.Sleep(time.Microsecond) // it works, but takes too long
			return 42, nil
		})
	}
	s := b.Snapshot()
	fmt.Println(s.State, s.Failures, s.Slow, s.SlowRate)
	// Output: open 0 2 1
}

func ExampleHooks_rateExceeded() {
	b := core.Must(breaker.New(breaker.Config{
		Window: 4, Initial: breaker.MetricsOnly, // to see what it would do
		Hooks: breaker.Hooks{RateExceeded: func(_ context.Context, i breaker.Info) {
			fmt.Println("would open at", i.FailureRate)
		}},
	}))
	for range 10 {
		_, _ = breaker.Do(context.Background(), b, func(context.Context) (int, error) { return 0, errors.New("down") })
	}
	fmt.Println(b.State())
	// Output:
	// would open at 1
	// metrics_only
}

func ExamplePermit_Trip() {
	b := core.Must(breaker.New(breaker.Config{}))
	permit, err := b.Acquire(context.Background())
	if err != nil {
		panic(err)
	}
	permit.Trip(2 * time.Hour) // it answered that we are banned
	fmt.Println(b.State(), b.Snapshot().RetryAfter().Round(time.Hour))
	// Output: open 2h0m0s
}

func ExampleBreaker_SetConfig() {
	b := core.Must(breaker.New(breaker.Config{Window: 10}))
	for range 4 {
		_, _ = breaker.Do(context.Background(), b, func(context.Context) (int, error) { return 0, errors.New("down") })
	}
	fmt.Println(b.SetConfig(breaker.Config{Window: -1})) // the old one stays
	fmt.Println(b.SetConfig(breaker.Config{Window: 5}), b.Snapshot().Failures)
	_, _ = breaker.Do(context.Background(), b, func(context.Context) (int, error) { return 42, nil })
	fmt.Println(b.State())
	// Output:
	// breaker.Config.Window = -1: must be > 0 and <= 1048576 (0 means 100)
	// <nil> 4
	// open
}

func ExampleGroup_SetConfig() {
	g := core.Must(breaker.NewGroup(breaker.Config{}, 0))
	before := g.Get("api.example.com")
	if err := g.SetConfig(breaker.Config{Trials: 3}); err != nil {
		panic(err)
	}
	fmt.Println(before.Snapshot().Trials, g.Get("other.example.com").Snapshot().Trials)
	// Output: 3 3
}

func ExampleSnapshot() {
	b := core.Must(breaker.New(breaker.Config{Window: 2}))
	s := b.Snapshot()
	fmt.Println(s.State, s.Calls, s.RatesKnown)
	for range 2 {
		_, _ = breaker.Do(context.Background(), b, func(context.Context) (int, error) { return 0, errors.New("down") })
	}
	s = b.Snapshot()
	fmt.Println(s.State, s.Calls, s.RatesKnown, s.FailureRate, s.Opened, s.RetryAfter().Round(time.Minute))
	// Output:
	// closed 0 false
	// open 2 true 1 1 1m0s
}

func ExampleConfig_trip() {
	banned := errors.New("banned for an hour")
	b := core.Must(breaker.New(breaker.Config{
		Trip: func(_ context.Context, _ any, err error) time.Duration {
			if errors.Is(err, banned) {
				return time.Hour
			}
			return 0
		},
	}))
	_, _ = breaker.Do(context.Background(), b, func(context.Context) (int, error) { return 0, banned })
	fmt.Println(b.State(), b.Snapshot().RetryAfter().Round(time.Hour))
	// Output: open 1h0m0s
}
