package ratelimit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
)

// apart is an algorithm that keeps takes, of however many permits, one period apart.
// Of a key it keeps the time of the last.
type apart struct{}

func (apart) Earliest(l ratelimit.Limit, state []int64, now, _ int64) int64 {
	if len(state) == 0 {
		return now
	}
	return max(now, state[0]+int64(l.Period))
}

func (apart) Charge(_ ratelimit.Limit, state []int64, _, at, _ int64) []int64 {
	return append(state[:0], at)
}

func (apart) Refund(_ ratelimit.Limit, state []int64, _, at, _ int64) []int64 {
	if len(state) > 0 && state[0] == at { // nobody has taken since
		return state[:0]
	}
	return state
}

func (a apart) Available(l ratelimit.Limit, state []int64, now int64) int64 {
	if a.Earliest(l, state, now, 1) > now {
		return 0
	}
	return l.Permits
}

func (a apart) FullAt(l ratelimit.Limit, state []int64, now int64) int64 {
	return a.Earliest(l, state, now, 1)
}

// An algorithm of your own has all that the others have: weights, waiting, refunds,
// other limits beside it.
func ExampleCustom() {
	limiter := core.Must(ratelimit.New(ratelimit.Config{
		Limit: ratelimit.Limit{Custom: apart{}, Permits: 100, Period: time.Minute}.And(ratelimit.PerHour(150)),
	}))
	ctx := context.Background()
	for _, n := range []int64{100, 1} {
		r, err := limiter.Take(ctx, "key", n)
		fmt.Println(r.Allowed, r.Remaining, r.RetryAfter.Round(time.Second), err)
	}
	// Output:
	// true 0 0s <nil>
	// false 0 1m0s <nil>
}
