package pace

import (
	"context"
	"slices"
	"time"
)

// refresh reads the rates from the vendor if it is time, and returns the setting in force.
func (p *Pacer) refresh(ctx context.Context, set *setting) *setting {
	if int64(time.Since(p.base)) < p.refreshAt.Load() || ctx.Err() != nil || p.closed.Load() || !p.refreshing.CompareAndSwap(false, true) {
		return set
	}
	defer p.refreshing.Store(false)
	next := func() { p.refreshAt.Store(int64(min(time.Since(p.base), never-set.RefreshEvery) + set.RefreshEvery)) }
	next() // also if Refresh panics
	limit := refreshTimeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)/2) // the rest is for the call
	}
	brief, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	rates, err := set.Refresh(brief)
	if err != nil && ctx.Err() != nil { // the end of the caller's context means nothing for the rates
		p.refreshAt.Store(0)
		return set
	}
	if err == nil && !slices.Equal(rates, p.setting().Rates) {
		err = p.SetRates(rates...)
	}
	h := p.life.Hooks()
	if err != nil {
		p.refreshFailed.Add(1)
		p.call(ctx, h.RefreshFailed, Info{Err: err})
	} else {
		p.refreshed.Add(1)
		p.call(ctx, h.Refreshed, Info{Rates: rates})
	}
	next()
	return p.setting()
}
