package limits

import (
	"slices"

	"github.com/gresil/gresil/core/ratelimit/driver"
)

// A Key is one key during an operation, locked by its table.
type Key struct {
	Account

	Now     int64
	Changed bool // the table must write the account
}

// copy is a dry run.
func (k *Key) copy() *Key {
	c := *k
	for i := range c.Counts() {
		count := &c.Counts()[i]
		count.List = slices.Clone(count.List)
	}
	return &c
}

// check is the result of a take whose permits are not available now; it takes nothing.
func (k *Key) check(p *Plan, cost int64) driver.Result {
	r, _ := k.Apply(p, &driver.Op{Kind: driver.Check, Cost: cost})
	r.Allowed = false
	return r
}

// serve takes for a waiter at the earliest possible moment, if that is not later than latest, and
// sets Now to it.
func (k *Key) serve(p *Plan, cost, latest int64) (r driver.Result) {
	for range 1 + 2*MaxLimits { // the first RetryAfter can be too short for joined limits
		r, _ = k.operate(p, &driver.Op{Cost: cost}, true)
		if r.Allowed || r.RetryAfter == driver.Never || int64(r.RetryAfter) > latest-k.Now {
			break
		}
		k.Now += int64(r.RetryAfter)
	}
	return r
}
