package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/driver"
)

const (
	localShards = 16
	localKeys   = 1 << 16     // keys of a table that are remembered
	localHold   = time.Second // after ErrAway nothing is sent for this time, for a table with a share
)

var errServerTake = errors.New("redisstore: the permits were taken at the server, which is unavailable")

// A local decides for a table while the server is unavailable: with a share of the limit, in
// memory. It remembers the last state of keys at the server, and starts from it. It charges the
// permits that it granted to the server before the next decision there.
type local struct {
	table  *table
	memory driver.OwingTable
	shares sync.Map // planShare to the driver.ID in memory
	seed   maphash.Seed
	shards [localShards]localShard
	owing  atomic.Int64 // parts of keys with a debt
}

type planShare struct {
	id driver.ID
	n  int64
}

// Local returns the table that decides while the server is unavailable, with the share of this
// process. The store is counted as an instance from the first decision on.
func (t *table) Local() driver.Table {
	l := &local{table: t, seed: maphash.MakeSeed()}
	m := core.Must(ratelimit.NewMemory(ratelimit.MemoryConfig{}))
	l.memory = core.Must(m.Open("")).(driver.OwingTable) //nolint:forcetypeassert // those of a Memory are
	for i := range l.shards {
		l.shards[i].keys = map[string]*known{}
	}
	if !t.local.CompareAndSwap(nil, l) {
		l = t.local.Load()
	}
	t.store.instances.add(l)
	return l
}

// Plan registers limits with the table itself.
func (l *local) Plan(limits []driver.Spec) (driver.ID, error) { return l.table.Plan(limits) }

// Apply decides one operation here.
func (l *local) Apply(ctx context.Context, key string, id driver.ID, op driver.Op) (ratelimit.Result, error) {
	plans := *l.table.plans.Load()
	switch {
	case l.table.store.closed.Load():
		return ratelimit.Result{}, ratelimit.ErrClosed
	case id == 0 || int(id) >= len(plans):
		return ratelimit.Result{}, fmt.Errorf("redisstore: no plan %d in this table", id)
	case op.Kind == driver.Refund:
		return ratelimit.Result{}, errServerTake
	}
	l.table.store.instances.begin() //nolint:contextcheck // it has one of its own
	p, n := plans[id], l.table.store.instances.count()
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if op.Kind == driver.Reset {
		return l.forget(ctx, s, key, p, n)
	}
	k := l.know(s, key)
	k.plan = p
	for _, part := range p.parts {
		k.account(part)
	}
	for _, a := range k.parts {
		if a.told != n || a.part.inTurn(n) {
			if err := l.tell(key, a, n); err != nil {
				return ratelimit.Result{}, err
			}
		}
	}
	r, err := l.applyShare(ctx, key, p, op, n)
	if err != nil {
		return r, err
	}
	l.table.store.counters.local.Inc()
	if r.Granted > 0 {
		r.Receipt.At = ^r.Receipt.At // below 0, as none of the server is
		for _, part := range p.parts {
			l.charge(k.account(part), r.Granted)
		}
	}
	return r, nil
}

// applyShare does an operation in memory.
func (l *local) applyShare(ctx context.Context, key string, p *plan, op driver.Op, n int64) (ratelimit.Result, error) {
	op.Change = nil // it is of the limits, and not of the shares
	id, err := l.plan(p, n)
	if err != nil {
		return ratelimit.Result{}, err
	}
	r, err := l.memory.Apply(ctx, key, id, op)
	r.Plan = p.ID
	return r, err
}

// plan is the number in memory of the share of a plan.
func (l *local) plan(p *plan, n int64) (driver.ID, error) {
	of := planShare{p.ID, n}
	if id, ok := l.shares.Load(of); ok {
		return id.(driver.ID), nil //nolint:forcetypeassert // nothing else is stored
	}
	id, err := l.memory.Plan(p.shares(n).Specs())
	if err == nil {
		l.shares.Store(of, id)
	}
	return id, err
}

// tell charges a key in memory with the share of its usage at the server. The permits left at the
// server are for all instances; the usage of a bucket is a time, which is the same for the share.
// If there are fewer permits than instances, each instance has one permit in its turn, and none in
// the first period.
func (l *local) tell(key string, a *account, n int64) error {
	single := (*l.table.plans.Load())[a.part.ID]
	id, err := l.plan(single, n)
	if err != nil {
		return err
	}
	of, s, now := a.part.limit, share(a.part.limit, n), time.Now()
	permits, until := s.Permits-a.left/n, a.full
	switch {
	case of.Algorithm == ratelimit.AlgorithmTokenBucket:
		permits = 0 // only the time matters
		if until.Before(now) {
			until = now
		}
		if short := s.Burst*n - of.Burst; short > 0 {
			until = until.Add(mulDiv(short, int64(of.Period), of.Permits))
		}
	case a.part.inTurn(n):
		if until = now; a.told != n {
			until = until.Add(of.Period)
		}
		in := l.table.store.instances
		permits, until = 1, until.Add(turn(of, n, in.rank.Load(), in.now()+until.Sub(now).Microseconds()))
	case !until.After(now):
		permits = 0
	}
	if s.Algorithm == ratelimit.AlgorithmSlidingCounter && permits > 0 { // a.left already includes the weight
		until = now.Add(2 * s.Period)
	}
	if permits > 0 || of.Algorithm == ratelimit.AlgorithmTokenBucket {
		err = l.memory.Owe(key, id, max(0, permits), until)
	}
	if err == nil {
		a.told = n
	}
	return err
}

// inTurn reports whether n instances take turns, for a window with fewer permits.
func (p *part) inTurn(n int64) bool {
	return p.limit.Algorithm != ratelimit.AlgorithmTokenBucket && p.Capacity < n
}

// mulDiv returns a*b/c rounded up; it saturates.
func mulDiv(a, b, c int64) time.Duration {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, uint64(c-1), 0)
	if hi += carry; hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return time.Duration(min(q, math.MaxInt64))
}

// remote decides at the server, after it has charged the debt of the key, and remembers the
// decision.
func (l *local) remote(ctx, caller context.Context, key string, p *plan, op driver.Op) (ratelimit.Result, error) {
	if op.Kind == driver.Refund && op.Receipt.At < 0 {
		return l.refund(ctx, key, p, op)
	}
	l.table.store.instances.begin()                  //nolint:contextcheck // it has one of its own
	at := l.table.store.nodeOf(l.table.keyName(key)) //nolint:contextcheck // see nodeOf
	if at.holds() {
		return ratelimit.Result{}, ErrAway
	}
	if err := l.settle(ctx, key); err != nil {
		return ratelimit.Result{}, at.hold(err)
	}
	r, req, err := l.table.decide(ctx, caller, key, p, op)
	if err != nil {
		return r, at.hold(err)
	}
	s := l.shard(key)
	s.mu.Lock()
	if op.Kind == driver.Reset {
		_, _ = l.forget(ctx, s, key, p, l.table.store.instances.count())
	} else {
		l.learn(s, key, p, r, req)
	}
	s.mu.Unlock()
	if l.owing.Load() > 0 {
		l.table.store.instances.pushSoon()
	}
	return r, nil
}

// learn remembers the state of a key at the server.
func (l *local) learn(s *localShard, key string, p *plan, r ratelimit.Result, req *request) {
	stands := req.stands
	if stands == nil {
		stands = []stand{{r.Remaining, r.FullAfter}}
	}
	owes := false
	for _, st := range stands {
		owes = owes || st.full > 0
	}
	k := s.keys[key]
	if k == nil && !owes {
		return
	}
	k = l.know(s, key)
	now := time.Now()
	for i, st := range stands {
		k.account(p.parts[i]).learn(req.at, st, now, l.late())
	}
}

// late is how much older than the last known state an overtaken reply can be.
func (l *local) late() time.Duration { return 2 * l.table.store.cfg.timeout() }

// refund gives back a take that was decided here. Permits that were charged to the server in the
// meantime stay charged: the key can be limited too much, until they recover.
func (l *local) refund(ctx context.Context, key string, p *plan, op driver.Op) (ratelimit.Result, error) {
	op.Receipt.At = ^op.Receipt.At
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	k := l.know(s, key)
	before := make([]int64, len(k.parts))
	for i, a := range k.parts { // p can differ from the limit that was charged
		before[i] = l.used(ctx, key, a)
	}
	r, err := l.applyShare(ctx, key, p, op, l.table.store.instances.count())
	for i, a := range k.parts {
		if l.charged(a, &op.Receipt) {
			l.charge(a, -max(0, min(a.debt, op.Cost, before[i]-l.used(ctx, key, a))))
		}
	}
	return r, err
}

// charged reports whether a take here was charged to a limit.
func (l *local) charged(a *account, take *driver.Receipt) (is bool) {
	l.shares.Range(func(of, id any) bool {
		is = of.(planShare).id == a.part.ID && slices.Contains(take.Plans[:], id.(driver.ID)) //nolint:forcetypeassert // nothing else is stored
		return !is
	})
	return is
}

// used returns the usage of a share: permits granted here or charged by tell that have not
// recovered.
func (l *local) used(ctx context.Context, key string, a *account) int64 {
	n := cmp.Or(a.told, l.table.store.instances.count())
	id, err := l.plan((*l.table.plans.Load())[a.part.ID], n)
	if err != nil {
		return math.MaxInt64
	}
	r, err := l.memory.Apply(ctx, key, id, driver.Op{})
	if err != nil {
		return math.MaxInt64
	}
	s := share(a.part.limit, n)
	if s.Algorithm == ratelimit.AlgorithmTokenBucket {
		return int64(mulDiv(int64(r.FullAfter), s.Permits, int64(s.Period)))
	}
	used := r.Limit - r.Remaining
	if r.Remaining == 0 { // there might be reservations
		used = max(used, r.Limit*int64((r.FullAfter+s.Period-1)/s.Period))
	}
	return used
}

// charge adds to the debt that must be pushed.
func (l *local) charge(a *account, permits int64) {
	had := a.debt > 0
	a.debt = max(0, a.debt+permits)
	switch {
	case had && a.debt == 0:
		l.owing.Add(-1)
	case !had && a.debt > 0:
		l.owing.Add(1)
	}
}

// forget drops a key here.
func (l *local) forget(ctx context.Context, s *localShard, key string, p *plan, n int64) (ratelimit.Result, error) {
	l.drop(s, key)
	return l.applyShare(ctx, key, p, driver.Op{Kind: driver.Reset}, n)
}
