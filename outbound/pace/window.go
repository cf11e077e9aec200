package pace

import (
	"cmp"
	"slices"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// windowed returns the permit of a reservation under aligned windows: it begins Skew after the start
// of its window, and ends Slack and Skew before the end. If it is too late for that, retry is that
// end. Of several rates, the window of the shortest lies within those of the others.
func (c *call) windowed(r *ratelimit.Result, before, after time.Time) (permit Permit, retry time.Time) {
	per := slices.MinFunc(c.set.Rates, func(a, b Rate) int { return cmp.Compare(a.Per, b.Per) }).Per
	end := r.FullAfter // that of the last window in use
	if len(c.set.Rates) > 1 {
		end = firstEnd(r, per, before)
	}
	permit = Permit{At: after.Add(max(r.Wait, end-per+c.set.Skew)), NotAfter: before.Add(end - c.set.Skew - c.set.Slack - tick), Cost: c.n}
	if permit.NotAfter.Before(permit.At) {
		return Permit{}, after.Add(end)
	}
	return permit, time.Time{}
}

// firstEnd returns the time from a reservation under several rates to the end of its shortest window.
func firstEnd(r *ratelimit.Result, per time.Duration, before time.Time) time.Duration {
	if more := r.Receipt.More; more != nil && len(more.Stands) > 1 {
		return slices.MinFunc(more.Stands, func(a, b limits.Result) int { return cmp.Compare(a.FullAfter, b.FullAfter) }).FullAfter
	}
	if r.Wait > 0 { // until the start of a window
		return r.Wait + per
	}
	return per - time.Duration(before.UnixNano()%int64(per))
}
