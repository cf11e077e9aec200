package redisstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
)

// A pushed is a debt on its way to the server.
type pushed struct {
	shard   *localShard
	key     string
	account *account
	debt    int64 // all of it
	cost    int64 // what time has not given back
	item    *item
	r       ratelimit.Result
	err     error
}

// settle pushes what one key owes, unless somebody does so already, and waits for it until ctx
// ends.
func (l *local) settle(ctx context.Context, key string) error {
	if l.owing.Load() == 0 {
		return nil
	}
	s := l.shard(key)
	for {
		s.mu.Lock()
		k := s.keys[key]
		if k == nil || !k.owes() {
			s.mu.Unlock()
			return nil
		}
		pushing := k.pushing
		s.mu.Unlock()
		own := make(chan error, 1)
		if pushing == nil && !l.table.store.begin(func() { own <- l.push(context.WithoutCancel(ctx), []string{key}) }) {
			return ratelimit.ErrClosed
		}
		select {
		case <-pushing: // never, where there is none
		case err := <-own:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return explain(ctx.Err())
		}
	}
}

// pushAll pushes what all keys owe, until ctx ends; what fails stays behind.
func (l *local) pushAll(ctx context.Context) (failed error) {
	if l.owing.Load() == 0 {
		return nil
	}
	var keys []string
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for key, k := range s.keys {
			if k.owes() && k.pushing == nil {
				keys = append(keys, key)
			}
		}
		s.mu.Unlock()
	}
	for batch := range slices.Chunk(keys, maxBatch) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.table.store.instances.beatInTime(ctx)
		failed = cmp.Or(l.push(ctx, batch), failed)
	}
	return failed
}

// push charges the server what was let through here and time has not given back yet, as far as the
// limit goes. What fails stays a debt, though the server may have it: rather twice than not at all.
// A server that is taken to be away is not asked.
func (l *local) push(ctx context.Context, keys []string) error {
	over := make(chan struct{})
	claimed := make(map[*known]*localShard, len(keys))
	var debts []*pushed
	var away error
	for _, key := range keys {
		if l.table.store.nodeOf(l.table.keyName(key)).guard.State() == breaker.Open { //nolint:contextcheck // see nodeOf
			away = ErrAway
			continue
		}
		s := l.shard(key)
		s.mu.Lock()
		if k := s.keys[key]; k != nil && k.pushing == nil {
			k.pushing, claimed[k] = over, s
			for _, a := range k.parts {
				if a.debt > 0 {
					debts = append(debts, &pushed{shard: s, key: key, account: a, debt: a.debt, cost: min(a.debt, l.used(ctx, key, a))})
				}
			}
		}
		s.mu.Unlock()
	}
	err := l.send(debts, false) //nolint:contextcheck // what is sent together has a time of its own, as in a lane
	for _, d := range debts {
		d.shard.mu.Lock()
		if a := d.account; d.err == nil {
			l.charge(a, -d.debt)
			if d.cost > 0 {
				a.learn(d.item.at, stand{d.r.Remaining, d.r.FullAfter}, time.Now(), l.late())
			}
		}
		d.shard.mu.Unlock()
	}
	for k, s := range claimed {
		s.mu.Lock()
		k.pushing = nil
		s.mu.Unlock()
	}
	close(over)
	return cmp.Or(err, away)
}

// send sends debts together, and again those whose value the scripts for one limit could not
// read.
func (l *local) send(debts []*pushed, foreign bool) (err error) {
	var sent, again []*pushed
	batches := map[*node][]*item{}
	plans := *l.table.plans.Load()
	for _, d := range debts {
		if d.cost > 0 {
			op := ratelimit.Op{Kind: ratelimit.TakeAtMost, Cost: d.cost}
			d.item = &item{request: l.table.request(d.key, plans[d.account.part.id], op, foreign), done: make(chan struct{})}
			at := l.table.store.nodeOf(d.item.key)
			sent, batches[at] = append(sent, d), append(batches[at], d.item)
		}
	}
	for at, batch := range batches {
		(&lane{store: l.table.store, node: at}).send(batch)
	}
	for _, d := range sent {
		switch d.r, d.err = d.item.r, d.item.err; {
		case d.err != nil:
		case d.item.ok:
			continue
		case !foreign:
			again = append(again, d)
			continue
		default:
			d.err = errReply
		}
		err = d.err
	}
	if again != nil && err == nil {
		return l.send(again, true)
	}
	for _, d := range again {
		d.err = err
	}
	return err
}
