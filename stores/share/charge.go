package share

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

const (
	chargers = 32 // keys whose debts are charged at once
	outage   = 64 // charges of a shard that fail in a row, after which the others are put off
)

// A charge is the charging of a key's debt at the store. It is under way until over is closed.
type charge struct {
	over chan struct{}
	err  error
}

// depart counts an operation as under way to the store. Before that, it charges the debt of the key, or waits for a
// charge that is under way, until ctx ends.
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
				k.charge, c.err = nil, limits.ErrClosed
				close(c.over)
			}
		}
		s.mu.Unlock()
		select {
		case <-c.over:
			if c.err != nil {
				if l.table.store.ctx.Err() != nil {
					return nil, limits.ErrClosed // it has ended the charge
				}
				l.table.store.unsent.Add(1)
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

// chargeAll charges the debts of all keys, until ctx ends or the store seems to be unavailable, and reports whether all were
// charged. A debt whose charge failed remains. In a Cluster, the keys of one server can fail between those of others: each
// pass tries some keys of every shard, in random order.
func (l *local) chargeAll(ctx context.Context) bool {
	var failed atomic.Bool
	var wg sync.WaitGroup
	places := make(chan struct{}, chargers)
	for i := range l.shards {
		var inARow atomic.Int64 // failed charges
		s := &l.shards[i]
		s.mu.Lock()
		all := maps.Clone(s.keys)
		s.mu.Unlock()
		for key, k := range all {
			s.mu.Lock()
			due := inARow.Load() < outage && ctx.Err() == nil && s.keys[key] == k && k.owes() && k.charge == nil
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
					inARow.Add(1)
				} else {
					inARow.Store(0)
				}
				<-places
			})
		}
	}
	wg.Wait()
	return !failed.Load() && ctx.Err() == nil
}

// charge charges the store with the permits of a key that were granted here and have not recovered, up to each limit.
// After a failed charge the debt remains, though the store might have counted it: charging twice is better than not at
// all.
func (l *local) charge(ctx context.Context, key string, k *known, c *charge) {
	whole := ctx // if it ends, that is not a failure of the store
	ctx, cancel := context.WithTimeout(ctx, chargeTime)
	defer cancel()
	s := l.shard(key)
	s.mu.Lock()
	p, debts, cost := k.plan, map[*account]int64{}, int64(0)
	for _, a := range k.parts {
		if a.debt > 0 {
			a.sent, debts[a] = a.took, a.debt
			cost = max(cost, min(a.debt, l.used(ctx, key, a))) // the rest has recovered
		}
	}
	s.mu.Unlock()
	c.err = l.take(ctx, key, k, p, cost, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.err == nil:
		for a, debt := range debts {
			l.owe(a, -debt)
		}
	case whole.Err() == nil:
		k.failed(c.err)
	}
	k.charge = nil
	close(c.over)
}

// take takes permits of a key at the store, except the last ones. What is above the smallest of joined
// limits is taken of the larger ones alone, before: the store then forgets the smallest, and the last
// permits fill it.
func (l *local) take(ctx context.Context, key string, k *known, p *plan, permits, last int64) (err error) {
	var larger []limits.Spec
	for _, part := range p.parts {
		if min(permits, part.capacity) > p.capacity {
			larger = append(larger, part.limit)
		}
	}
	if len(larger) > 0 {
		of, failed := l.table.Plan(larger)
		if err = failed; err == nil {
			err = l.take(ctx, key, k, planOf(of), permits, p.capacity)
		}
	}
	if permits = min(permits, p.capacity) - last; permits <= 0 || err != nil {
		return err
	}
	sent := time.Now()
	r, err := l.table.inner.Apply(ctx, key, p.at, limits.Op{Kind: limits.TakeAtMost, Cost: permits})
	if err == nil {
		s := l.shard(key)
		s.mu.Lock()
		defer s.mu.Unlock()
		k.learn(p, &r, sent)
	}
	return err
}
