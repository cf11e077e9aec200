package redisstore

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/driver"
)

// A pushed is a debt on its way to the server.
type pushed struct {
	shard   *localShard
	key     string
	account *account
	plan    *plan
	debt    int64 // all of it
	cost    int64 // the part that has not recovered
	item    *item
	r       ratelimit.Result
	at      int64 // the time of the server at the decision
	err     error
}

// settle pushes the debt of one key, or waits for a push that is under way, until ctx ends.
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
		case <-pushing: // blocks if it is nil
		case err := <-own:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return explain(ctx.Err())
		}
	}
}

// pushAll pushes the debts of all keys, until ctx ends; failed ones stay.
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

// push charges the server with the permits that were granted here and have not recovered, up to
// the limit. A failed push stays a debt, though the server might have counted it: charging twice
// is better than not at all. Nothing is sent to a server that counts as unavailable.
func (l *local) push(ctx context.Context, keys []string) error {
	over := make(chan struct{})
	claimed := make(map[*known]*localShard, len(keys))
	plans := *l.table.plans.Load()
	var debts []*pushed
	var joints []*joined
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
			own := len(debts)
			for _, a := range k.parts {
				if a.debt > 0 {
					debts = append(debts, &pushed{shard: s, key: key, account: a, plan: plans[a.part.ID], debt: a.debt, cost: min(a.debt, l.used(ctx, key, a))})
				}
			}
			if j := joint(k.plan, debts[own:]); j != nil {
				joints = append(joints, j)
			}
		}
		s.mu.Unlock()
	}
	err := l.sendJoined(joints)             //nolint:contextcheck // a batch has its own timeout, as in a lane
	err = cmp.Or(err, l.send(debts, false)) //nolint:contextcheck // see above
	for _, d := range debts {
		d.shard.mu.Lock()
		if a := d.account; d.err == nil {
			l.charge(a, -d.debt)
			if d.r.Limit > 0 {
				a.learn(d.at, stand{d.r.Remaining, d.r.FullAfter}, time.Now(), l.late())
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

// A joined is a debt under several limits for the same takes: the server charges each take to all
// of them.
type joined struct {
	pushed

	parts []*pushed // in the order of the plan
}

// joint returns the debt of a key for the same takes under all limits of p, or nil.
func joint(p *plan, debts []*pushed) *joined {
	if p == nil || len(p.parts) < 2 {
		return nil
	}
	j := &joined{pushed: pushed{plan: p, cost: math.MaxInt64}}
	for _, part := range p.parts {
		i := slices.IndexFunc(debts, func(d *pushed) bool { return d.account.part == part })
		if i < 0 {
			return nil
		}
		j.parts, j.key, j.cost = append(j.parts, debts[i]), debts[i].key, min(j.cost, debts[i].cost)
	}
	return j
}

// sendJoined sends debts under several limits; the rest is a debt under each limit.
func (l *local) sendJoined(joints []*joined) error {
	var debts []*pushed
	for _, j := range joints {
		debts = append(debts, &j.pushed)
	}
	err := l.send(debts, false)
	for _, j := range joints {
		for i, d := range j.parts {
			if d.err = j.err; j.err == nil && j.cost > 0 && i < len(j.item.stands) {
				d.cost, d.at = d.cost-j.r.Granted, j.at
				d.r = ratelimit.Result{Limit: d.account.part.Capacity, Remaining: j.item.stands[i].left, FullAfter: j.item.stands[i].full}
			}
		}
	}
	return err
}

// send sends debts together, and again the debts of keys whose value the scripts for one limit
// could not read.
func (l *local) send(debts []*pushed, foreign bool) (err error) {
	var sent, again []*pushed
	batches := map[*node][]*item{}
	for _, d := range debts {
		if d.cost > 0 && d.err == nil {
			op := driver.Op{Kind: driver.TakeAtMost, Cost: d.cost}
			d.item = &item{request: l.table.request(d.key, d.plan, op, foreign), done: make(chan struct{})}
			at := l.table.store.nodeOf(d.item.key)
			sent, batches[at] = append(sent, d), append(batches[at], d.item)
		}
	}
	for at, batch := range batches {
		(&lane{store: l.table.store, node: at}).send(batch)
	}
	for _, d := range sent {
		switch d.r, d.at, d.err = d.item.r, d.item.at, d.item.err; {
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
