package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
)

func ExampleBreaker_SetState() {
	b := core.Must(breaker.New(breaker.Config{Name: "mail"}))
	if err := b.SetState(breaker.ForcedOpen); err != nil { // until it is set again
		panic(err)
	}
	_, err := breaker.Do(context.Background(), b, func(context.Context) (string, error) { return "sent", nil })
	fmt.Println(err)
	fmt.Println(b.SetState(breaker.Closed), b.State())
	fmt.Println(b.SetState(99))
	// Output:
	// breaker: mail: forced open
	// <nil> closed
	// breaker.Breaker.SetState = State(99): must be a state
}

func ExampleState() {
	var s breaker.State
	fmt.Println(s.UnmarshalText([]byte("half_open")), s)
	fmt.Println(s.UnmarshalText([]byte("ajar")))
	// Output:
	// <nil> half_open
	// breaker.State = "ajar": must be closed, open, half_open, forced_open, disabled or metrics_only
}

func ExampleTrialRule() {
	var r breaker.TrialRule
	fmt.Println(r.UnmarshalText([]byte("all_must_succeed")), r)
	// Output: <nil> all_must_succeed
}

func ExampleBreaker_OpenFor() {
	b := core.Must(breaker.New(breaker.Config{}))
	if err := b.OpenFor(5 * time.Minute); err != nil { // the other side asked for it
		panic(err)
	}
	_, err := b.Acquire(context.Background())
	wait, _ := core.RetryAfter(err)
	fmt.Println(b.State(), errors.Is(err, breaker.ErrOpen), wait.Round(time.Minute))
	// Output: open true 5m0s
}

func ExampleBreaker_Reset() {
	b := core.Must(breaker.New(breaker.Config{Window: 2}))
	for range 2 {
		_, _ = breaker.Do(context.Background(), b, func(context.Context) (int, error) { return 0, errors.New("down") })
	}
	fmt.Println(b.State(), b.Snapshot().Failures)
	b.Reset()
	fmt.Println(b.State(), b.Snapshot().Failures)
	// Output:
	// open 2
	// closed 0
}
