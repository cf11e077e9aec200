package pace

import (
	"cmp"
	"slices"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
)

// windowed returns the permit of a reservation under aligned windows: it begins Skew after the start
// of its windows, and ends Slack and Skew before the first of them ends. If it is too late for that,
// retry is that end.
func (c *call) windowed(r *ratelimit.Result, before, after time.Time) (permit Permit, retry time.Time) {
	from, to := r.Wait, never
	ends := c.ends(r, before, after)
	for i, rate := range c.set.Rates {
		end := ends[i]
		from, to = max(from, end-rate.Per+c.set.Skew), min(to, end)
	}
	permit = Permit{At: after.Add(from), NotAfter: before.Add(to - c.set.Skew - c.set.Slack - tick), Cost: c.n}
	if permit.NotAfter.Before(permit.At) {
		return Permit{}, after.Add(to)
	}
	return permit, time.Time{}
}

// ends returns, for each rate, the time from the reservation to the end of the window that it is in.
func (c *call) ends(r *ratelimit.Result, before, after time.Time) (ends [maxRates]time.Duration) {
	rates := c.set.Rates
	if len(rates) == 1 {
		return [maxRates]time.Duration{r.FullAfter} // that of the last window in use
	}
	if more, ok := r.Receipt.More.(interface{ Standings() []ratelimit.Result }); ok && len(more.Standings()) == len(rates) {
		for i, stand := range more.Standings() {
			ends[i] = stand.FullAfter
		}
		return ends
	}
	slot := before.UnixNano()
	if r.Wait > 0 { // it is the start of a window of the shortest period
		slot = after.Add(r.Wait).UnixNano()
		slot -= slot % int64(slices.MinFunc(rates, func(a, b Rate) int { return cmp.Compare(a.Per, b.Per) }).Per)
	}
	for i, rate := range rates {
		ends[i] = r.Wait + rate.Per - time.Duration(slot%int64(rate.Per))
	}
	return ends
}
