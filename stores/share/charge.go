package share

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

const chargers = 32 // keys whose debts are charged at a time

// A charge of the debt of a key is under way until over is closed.
type charge struct {
	over chan struct{}
	err  error
}

// depart counts an operation as under way to the store, after it has charged the debt of the key, or
// has waited for a charge that is under way, until ctx ends.
func (l *local) depart(ctx context.Context, key string, cost int64) (*known, error) {
	s := l.shard(key)
	for {
		s.mu.Lock()
		k := l.know(s, key)
		held := !k.held.IsZero() && time.Now().Before(k.held)
		if held || !k.owes() {
			defer s.mu.Unlock()
			if held {
				l.table.store.unsent.Add(1)
				return nil, limits.Unsent(k.err, true)
			}
			k.flying += cost
			return k, nil
		}
		c := k.charge
		if c == nil {
			c = k.claim()
			if !l.table.store.begin(func() {
				ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
				defer cancel()
				defer context.AfterFunc(l.table.store.ctx, cancel)() //nolint:contextcheck // Close ends it
				l.charge(ctx, key, k, c)
			}) {
				c.err = limits.ErrClosed
				close(c.over)
			}
		}
		s.mu.Unlock()
		select {
		case <-c.over:
			if c.err != nil {
				return nil, c.err
			}
		case <-ctx.Done():
			return nil, limits.Unsent(context.Cause(ctx), false)
		}
	}
}

func (k *known) claim() *charge {
	k.charge = &charge{over: make(chan struct{})}
	return k.charge
}

// chargeAll charges the debts of all keys, until ctx ends, and reports whether it could; failed ones
// stay.
func (l *local) chargeAll(ctx context.Context) bool {
	if l.owing.Load() == 0 {
		return true
	}
	var failed atomic.Bool
	var wg sync.WaitGroup
	places := make(chan struct{}, chargers)
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		all := maps.Clone(s.keys)
		s.mu.Unlock()
		for key, k := range all {
			s.mu.Lock()
			due := ctx.Err() == nil && s.keys[key] == k && k.owes() && k.charge == nil
			if !due {
				s.mu.Unlock()
				continue
			}
			c := k.claim()
			s.mu.Unlock()
			places <- struct{}{}
			wg.Go(func() {
				if l.charge(ctx, key, k, c); c.err != nil {
					failed.Store(true)
				}
				<-places
			})
		}
	}
	wg.Wait()
	return !failed.Load() && ctx.Err() == nil
}

// A debt is the usage of one account that the store does not count yet.
type debt struct {
	account *account
	all     int64
	rest    int64 // has not recovered, and is not charged
	charged int64
}

// charge charges the store with the permits of a key that were granted here and have not recovered,
// up to the limit. A failed charge stays a debt, though the store might have counted it: charging
// twice is better than not at all.
func (l *local) charge(ctx context.Context, key string, k *known, c *charge) {
	whole := ctx // its end is not a failure of the store
	ctx, cancel := context.WithTimeout(ctx, chargeTime)
	defer cancel()
	s := l.shard(key)
	s.mu.Lock()
	var debts []*debt
	var plans []*plan
	if k.plan != nil && len(k.plan.parts) > 1 {
		plans = append(plans, k.plan) // first the same takes under all its limits, which the store charges to each
	}
	for _, a := range k.parts {
		if a.debt > 0 {
			a.sent = a.took
			debts = append(debts, &debt{account: a, all: a.debt, rest: min(a.debt, l.used(ctx, key, a))})
			plans = append(plans, a.part)
		}
	}
	s.mu.Unlock()
	for _, p := range plans {
		if c.err == nil {
			c.err = l.send(ctx, k, key, p, debts)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.err != nil && whole.Err() == nil {
		k.failed(c.err)
	}
	for _, d := range debts {
		if c.err == nil {
			d.charged = d.all // the rest has recovered, or is more than the limit
		}
		l.owe(d.account, -d.charged)
	}
	k.charge = nil
	close(c.over)
}

// send charges the store with the debts that all limits of a plan have, and remembers how the key
// stands there.
func (l *local) send(ctx context.Context, k *known, key string, p *plan, debts []*debt) error {
	cost, own := int64(math.MaxInt64), debts[:0:0]
	for _, d := range debts {
		if slices.Contains(p.parts, d.account.part) {
			own, cost = append(own, d), min(cost, d.rest)
		}
	}
	if len(own) < len(p.parts) || cost <= 0 {
		return nil
	}
	sent := time.Now()
	r, err := l.table.Table.Apply(ctx, key, p.id, limits.Op{Kind: limits.TakeAtMost, Cost: cost})
	if err != nil {
		return err
	}
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	k.learn(p, &r, sent)
	for _, d := range own {
		d.rest, d.charged = d.rest-r.Permits, d.charged+r.Permits
	}
	return nil
}
