package redisstore

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gresil/gresil/internal/limits"
)

const (
	leaseSpan   = time.Second            // permits that were taken in advance and are not used are given back after that
	leaseWait   = 100 * time.Millisecond // the longest refusal without the server
	hotTakes    = 8                      // takes of a key in a span, from which on permits are taken in advance
	leaseShare  = 4                      // all processes together take in advance at most this part of a limit
	leaseShards = 64
)

// leases are the permits of a table that this process has taken in advance. They are only for keys that are used often, so
// that other keys take no memory here.
type leases struct {
	table  *table
	seed   maphash.Seed
	base   time.Time
	counts [4096]atomic.Uint64 // takes of keys without a lease, by their hash: the span, the key's hash, and how many
	shards [leaseShards]leaseShard
}

type leaseShard struct {
	mu sync.Mutex
	of map[string]*lease
	_  [40]byte // one lock for each cache line
}

// A lease is what this process knows of a key. All times are since base.
type lease struct {
	*leaseShard

	key   string
	timer *time.Timer // of the span

	plan        *limits.Plan  // of grant and refusal
	grant       limits.Result // of the last permits that were taken in advance
	at          time.Duration // of grant
	left        int64         // permits of grant
	refusal     limits.Result // of cost permits
	cost        int64
	since       time.Duration // of refusal
	until       time.Duration // the end of refusal
	changed     time.Duration // when plan was
	asked, last int64         // permits that were asked for in this span, and in the last one
	filling     *filling      // nil if no permits are being taken in advance
}

// A filling is an operation that takes permits in advance.
type filling struct {
	done chan struct{}
	err  error
}

func newLeases(t *table) *leases {
	l := &leases{table: t, seed: maphash.MakeSeed(), base: time.Now()}
	for i := range l.shards {
		l.shards[i].of = map[string]*lease{}
	}
	return l
}

// hot counts a take of a key without a lease, and reports whether there were many in this span. Keys that share a counter lower each
// other's count, so that rare keys are not taken for a busy one.
func (l *leases) hot(hash uint64, now time.Duration) bool {
	at, span, key := &l.counts[hash/leaseShards%uint64(len(l.counts))], uint64(now/leaseSpan)&0xffff, hash>>32
	was := at.Load()
	n := was & 0xffff
	switch {
	case n == 0 || was>>48 != span:
		n = 1
	case was>>16&0xffffffff == key:
		n = min(n+1, 0xffff)
	default:
		at.Store(was - 1) // some are lost if several are counted at once
		return false
	}
	at.Store(span<<48 | key<<16 | n)
	return n > hotTakes
}

// take carries out a take, by permits that were taken in advance or by a refusal that still holds, if there is one.
func (l *leases) take(ctx context.Context, key string, p *limits.Plan, op limits.Op) (limits.Result, bool, error) {
	before, r, ok, err := l.try(ctx, key, p, op)
	if before == nil {
		return r, ok, err
	}
	within := newWithin(ctx, l.table.store.cfg.timeout()) // for all steps together
	defer within.end()
	for before != nil {
		if err := before(within); err != nil { //nolint:contextcheck // within is ctx with a deadline
			return limits.Result{}, false, err
		}
		before, r, ok, err = l.try(within, key, p, op) //nolint:contextcheck // see above
	}
	return r, ok, err
}

// try is one step of take. If something has to be done before the next one, it returns that.
func (l *leases) try(
	ctx context.Context, key string, p *limits.Plan, op limits.Op,
) (before func(context.Context) error, r limits.Result, ok bool, err error) {
	hash, now, store := maphash.String(l.seed, key), time.Since(l.base), l.table.store
	shard := &l.shards[hash%leaseShards]
	shard.mu.Lock()
	e := shard.of[key]
	if e == nil && !store.leaving.Load() && l.hot(hash, now) {
		e = l.addLocked(shard, key, p)
	}
	if e == nil || e.plan != p && now-e.changed < leaseSpan { // with two limits in use, each change would lose what was taken in advance
		shard.mu.Unlock()
		r, ok, err = l.table.ask(ctx, key, p, op)
		return nil, r, ok, err
	}
	if old, left, of := e.plan, e.left, e.grant.Receipt; old != p {
		e.plan, e.left, e.until, e.changed = p, 0, 0, now
		shard.mu.Unlock()
		return func(ctx context.Context) error { return l.giveBack(ctx, key, old, of, left) }, r, false, nil
	}
	scarce, f := now < e.until, e.filling
	switch {
	case e.left >= op.Cost:
		e.asked, e.left = e.asked+op.Cost, e.left-op.Cost
		r = e.granted(op.Cost, now)
		shard.mu.Unlock()
		store.counters.leased.Inc()
		return nil, r, true, nil
	case scarce && op.Cost == e.cost:
		e.asked += op.Cost
		r = e.refused(now)
		shard.mu.Unlock()
		store.counters.leased.Inc()
		return nil, r, true, nil
	}
	left, of := e.left, e.grant.Receipt // too few
	fits := false                       // into the permits that are taken at once
	if !scarce {
		n := e.size(l.table, op.Cost)
		if fits = n >= 2*op.Cost; fits && f == nil {
			f, e.left = &filling{done: make(chan struct{})}, 0
			e.filling = f
			go l.fill(e, f, n, p, left, of)
		}
	}
	switch {
	case fits:
		shard.mu.Unlock()
		return func(ctx context.Context) error { return l.wait(ctx, key, f) }, r, false, nil
	case scarce && left > 0: // the server has to know all that is left
		e.left = 0
		shard.mu.Unlock()
		return func(ctx context.Context) error { return l.giveBack(ctx, key, p, of, left) }, r, false, nil
	}
	e.asked += op.Cost
	shard.mu.Unlock()
	r, ok, err = l.ask(ctx, e, p, op)
	return nil, r, ok, err
}

// wait waits until f is over.
func (l *leases) wait(ctx context.Context, key string, f *filling) error {
	select {
	case <-f.done:
		if f.err == nil {
			return nil
		}
		unavailable, _ := limits.IsUnsent(f.err)
		return limits.Unsent(f.err, unavailable) // this take was not sent
	case <-ctx.Done():
		return unsent(explain(l.table.store.nodeOf(l.table.keyName(key)).named(ctx.Err()), true))
	}
}

// addLocked adds a lease for a key.
func (l *leases) addLocked(shard *leaseShard, key string, p *limits.Plan) *lease {
	e := &lease{leaseShard: shard, key: strings.Clone(key), plan: p, changed: -leaseSpan, last: hotTakes}
	e.timer = time.AfterFunc(leaseSpan, func() { l.next(e) })
	shard.of[e.key] = e
	return e
}

// size returns how many permits are taken at once, for a take of cost: those of a span, but at most Config.MaxLease, and so many that all
// processes together take no more than a part of the limit. It returns 0 until the processes are counted.
func (e *lease) size(t *table, cost int64) int64 {
	processes := t.store.counted().n
	if processes == 0 {
		return 0
	}
	return min(max(e.last, e.asked+cost), t.store.cfg.maxLease(), e.plan.Capacity/(leaseShare*processes))
}

// granted returns the result of a take of permits that were taken in advance.
func (e *lease) granted(cost int64, now time.Duration) limits.Result {
	r := e.grant
	r.Permits, r.Remaining = cost, r.Remaining+e.left
	return aged(r, now-e.at)
}

// refused returns the result of a take while a refusal holds.
func (e *lease) refused(now time.Duration) limits.Result {
	r := e.refusal
	r.RetryAfter -= now - e.since // it is positive until the end
	return aged(r, now-e.since)
}

// aged returns a result as of a later time.
func aged(r limits.Result, by time.Duration) limits.Result {
	r.FullAfter = max(0, r.FullAfter-by)
	if r.NextAfter -= by; r.NextAfter <= 0 {
		r.NextAfter = r.RetryAfter
	}
	return r
}

// ask has the server decide about a take.
func (l *leases) ask(ctx context.Context, e *lease, p *limits.Plan, op limits.Op) (limits.Result, bool, error) {
	began := time.Since(l.base)
	r, ok, err := l.table.ask(ctx, e.key, p, op)
	if ok && !r.Allowed && r.RetryAfter > 0 {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.plan == p {
			e.refuse(r, op.Cost, began, time.Since(l.base))
		}
	}
	return r, ok, err
}

// refuse notes a refusal of a request that was sent at a time.
func (e *lease) refuse(r limits.Result, cost int64, sent, now time.Duration) {
	e.refusal, e.cost, e.since, e.until = r, cost, now, min(sent+r.RetryAfter, now+leaseWait)
	e.refusal.Receipt = limits.Receipt{At: -1, Plan: r.Receipt.Plan} // decided without the server
}

// fill takes n permits, for which takes of the key wait. Before that it gives back those that are left of a take.
func (l *leases) fill(e *lease, f *filling, n int64, p *limits.Plan, left int64, of limits.Receipt) {
	defer close(f.done)
	_ = l.giveBack(l.table.store.ctx, e.key, p, of, left)
	began := time.Since(l.base)
	r, ok, err := l.table.ask(l.table.store.ctx, e.key, p, limits.Op{Kind: limits.TakeAtMost, Cost: n})
	if f.err = err; err == nil && !ok {
		f.err = errReply
	}
	if !l.filled(e, r, n, p, began) {
		_ = l.giveBack(l.table.store.ctx, e.key, p, r.Receipt, r.Permits)
	}
}

// filled notes the result of fill. It returns false if the permits are of no use any more.
func (l *leases) filled(e *lease, r limits.Result, n int64, p *limits.Plan, began time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.filling = nil
	if e.plan != p || e.of[e.key] != e {
		return false
	}
	now := time.Since(l.base)
	if r.Permits > 0 {
		e.grant, e.at, e.left = r, now, r.Permits
	}
	if r.Permits < n && r.NextAfter > 0 { // there are no more
		r.Allowed, r.Permits, r.Remaining, r.RetryAfter = false, 0, 0, r.NextAfter
		e.refuse(r, 1, began, now)
	}
	return true
}

// giveBack refunds permits, if there are any. Without a reply they are lost, which is no failure of a take.
func (l *leases) giveBack(ctx context.Context, key string, p *limits.Plan, receipt limits.Receipt, n int64) error {
	if n > 0 {
		op := limits.Op{Kind: limits.Refund, Cost: n, Receipt: receipt}
		_, _, _ = l.table.ask(ctx, key, p, op)
	}
	return nil
}

// refund takes back permits of the last grant, so that they can be used or given back with the others. It returns false if they are of
// another take, or of one so long ago that only the server knows what has recovered since.
func (l *leases) refund(key string, op *limits.Op) (limits.Result, bool) {
	shard := &l.shards[maphash.String(l.seed, key)%leaseShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	e, now := shard.of[key], time.Since(l.base)
	if e == nil || e.plan != op.Receipt.Plan || e.filling != nil || now-e.at >= leaseSpan {
		return limits.Result{}, false
	} else if of := &e.grant.Receipt; op.Receipt.At != of.At || op.Receipt.Parts != of.Parts {
		return limits.Result{}, false
	}
	e.left = min(e.left+op.Cost, e.grant.Permits)
	return e.granted(0, now), true
}

// after notes an operation that the server has decided. A refund or a reset can have freed permits; a reset makes those void that
// were taken in advance. To an operation that only looks, these are available.
func (l *leases) after(key string, p *limits.Plan, op *limits.Op, r *limits.Result) {
	shard := &l.shards[maphash.String(l.seed, key)%leaseShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	e := shard.of[key]
	if e == nil {
		return
	}
	switch op.Kind {
	case limits.Reset: // also those that are being taken
		e.timer.Stop()
		delete(shard.of, key)
	case limits.Drain:
		e.left = 0
	case limits.Refund:
		e.until = 0
	case limits.Check, limits.Take:
		if e.plan == p && e.left > 0 {
			if r.Remaining += e.left; r.Remaining >= op.Cost {
				r.Allowed, r.RetryAfter = true, 0
			}
		}
	case limits.TakeAtMost, limits.Reserve:
	}
}

// next ends the span of a lease. It gives back permits that were not used in it, and forgets a key that is not used.
func (l *leases) next(e *lease) {
	e.mu.Lock()
	if e.of[e.key] != e {
		e.mu.Unlock()
		return
	}
	left, plan, receipt := e.left, e.plan, e.grant.Receipt
	if time.Since(l.base)-e.at < leaseSpan {
		left = 0
	}
	e.left -= left
	if e.last, e.asked = e.asked, 0; e.last > 0 || e.filling != nil || e.left > 0 {
		e.timer.Reset(leaseSpan)
	} else {
		delete(e.of, e.key)
	}
	e.mu.Unlock()
	_ = l.giveBack(l.table.store.ctx, e.key, plan, receipt, left)
}

// end gives back all permits that were taken in advance.
func (l *leases) end(all *errgroup.Group) {
	for i := range l.shards {
		shard := &l.shards[i]
		shard.mu.Lock()
		ended := shard.of
		shard.of = map[string]*lease{}
		shard.mu.Unlock()
		for _, e := range ended {
			e.timer.Stop()
			all.Go(func() error {
				e.mu.Lock()
				f := e.filling
				e.mu.Unlock()
				if f != nil {
					<-f.done // its permits are given back then
				}
				return l.giveBack(l.table.store.ctx, e.key, e.plan, e.grant.Receipt, e.left)
			})
		}
	}
}
