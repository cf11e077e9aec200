package share

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/limits/memory"
)

const (
	maxKeys  = 1 << 16     // keys of a table that are kept, in all shards
	hold     = time.Second // how long nothing is sent to a store that is unavailable
	failures = 8           // the number of failures in a row, for one key, after which a store counts as unavailable
)

var errTake = errors.New("share: the permits were taken at the store, which is unavailable")

// A local decides for a table while the store fails: with a share of the limit, in memory. It keeps the last state of
// keys at the store, and starts from that state. Before the next decision there, it charges the store for the permits
// that it has granted.
type local struct {
	table  *table
	memory *memory.Table
	seed   maphash.Seed
	shards [16]shard
	most   int // keys of a shard
}

func (l *local) shard(key string) *shard {
	return &l.shards[maphash.String(l.seed, key)%uint64(len(l.shards))]
}

// Plan registers limits with the table itself.
func (l *local) Plan(limits []limits.Spec) (*limits.Plan, error) { return l.table.Plan(limits) }

// Apply decides one operation here.
func (l *local) Apply(ctx context.Context, key string, of *limits.Plan, op limits.Op) (limits.Result, error) {
	p := planOf(of)
	switch {
	case l.table.store.ctx.Err() != nil:
		return limits.Result{}, limits.ErrClosed
	case op.Kind == limits.Refund:
		return limits.Result{}, errTake
	}
	in := l.table.instances()
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if op.Kind == limits.Reset {
		return l.forget(ctx, s, key, p, in.n)
	}
	k := l.know(s, key)
	if err := l.prepare(ctx, key, k, p, &op, in); err != nil {
		return limits.Result{}, err
	}
	r, err := l.apply(ctx, key, p, op, in.n)
	if err != nil {
		return r, err
	}
	l.table.store.local.Inc()
	took := r.Receipt.At
	r.Receipt.At = ^took // below 0, unlike those of the store
	if r.RetryAfter == limits.Never && op.Cost <= p.capacity {
		if r.RetryAfter = time.Until(k.held); r.RetryAfter <= 0 { // the share is never that large, but the limit of the store is
			r.RetryAfter = hold
		}
	}
	if r.Permits > 0 {
		for _, part := range p.parts {
			a := k.account(part)
			a.took = took
			l.owe(a, r.Permits)
		}
		l.table.store.indebted()
	}
	return r, nil
}

// apply carries out an operation in memory.
func (l *local) apply(ctx context.Context, key string, p *plan, op limits.Op, n int64) (limits.Result, error) {
	share, err := l.share(p, n)
	if err != nil {
		return limits.Result{}, err
	}
	return l.memory.Apply(ctx, key, share, op)
}

// share returns the share of a plan, for the table in memory.
func (l *local) share(p *plan, n int64) (*limits.Plan, error) {
	if share, ok := p.shares.Load(n); ok {
		return share.(*limits.Plan), nil //nolint:forcetypeassert // nothing else is stored
	}
	share, err := l.memory.Plan(p.split(n))
	if err == nil {
		p.shares.Store(n, share)
	}
	return share, err
}

// prepare charges a key in memory with its usage at the store, as far as that is not charged yet, and with takes that
// the store might have granted without a reply.
func (l *local) prepare(ctx context.Context, key string, k *known, p *plan, op *limits.Op, in instances) error {
	k.plan = p
	for _, part := range p.parts {
		k.account(part)
	}
	for _, a := range k.parts {
		if a.told != in.n || inTurn(a.part.limit, in.n) {
			if err := l.raise(key, a, in); err != nil {
				return err
			}
		}
	}
	l.prune(k, p)
	if op.Cost == 0 && op.Kind != limits.Drain {
		return nil
	}
	unknown := k.unknown + k.flying - k.covered
	k.unknown, k.covered = 0, k.flying
	if unknown <= 0 {
		return nil
	}
	_, err := l.apply(ctx, key, p, limits.Op{Kind: limits.TakeAtMost, Cost: unknown}, in.n)
	return err
}

// raise charges a key in memory with its share of the usage at the store. The permits left at the store are for all
// instances. The usage of a bucket is a time, which is the same for the share. If there are fewer permits than
// instances, each instance has one permit in its turn, and none until the usage of all has recovered.
func (l *local) raise(key string, a *account, in instances) error {
	id, err := l.share(a.part, in.n)
	if err != nil {
		return err
	}
	of, s, now := a.part.limit, split(a.part.limit, in.n), time.Now()
	bucket := of.Algorithm == limits.TokenBucket
	permits, until := s.Permits-a.left/in.n, a.full
	switch {
	case inTurn(of, in.n):
		full := until
		if until = now; a.told != in.n {
			if until = now.Add(of.Period); bucket {
				until = now.Add(recovery(of))
			}
			if bucket && full.After(until) {
				until = full
			}
		}
		in.now += until.Sub(now)
		permits, until = 1, until.Add(turn(of, in))
	case bucket:
		if permits = 0; until.Before(now) { // only the time counts
			until = now
		}
	case !until.After(now):
		permits = 0
	}
	if s.Algorithm == limits.SlidingCounter && permits > 0 { // a.left already includes the weight
		until = now.Add(2 * s.Period)
	}
	if permits > 0 || bucket {
		err = l.memory.Owe(key, id, max(0, permits), until)
	}
	if err == nil {
		a.told = in.n
	}
	return err
}

// remote charges the debt of the key to the store, has the store decide, and notes the decision.
func (l *local) remote(ctx context.Context, key string, p *plan, op limits.Op) (limits.Result, error) {
	l.table.instances() // so that this process is counted from its first decision on
	if op.Kind == limits.Refund && op.Receipt.At < 0 {
		return l.refund(ctx, key, p, op)
	}
	cost := p.most(op)
	k, err := l.depart(ctx, key, cost)
	if err != nil {
		return limits.Result{}, err
	}
	sent := time.Now()
	r, err := l.table.inner.Apply(ctx, key, p.at, op)
	s := l.shard(key)
	s.mu.Lock()
	_, unsent := limits.IsUnsent(err)
	k.landed(cost, err != nil && !unsent)
	switch {
	case err != nil && op.Kind != limits.Refund && blame.EndedBy(ctx, err): // the caller ended it; a refund has its own time
	case err != nil:
		k.failed(err)
	case op.Kind == limits.Reset:
		_, _ = l.forget(ctx, s, key, p, l.table.instances().n)
	case r.Receipt.At >= 0:
		if k.failures = 0; r.Permits > 0 || k.plan == nil || k.plan == p { // r of another limit says nothing of the last take's limit
			k.learn(p, &r, sent)
			l.prune(k, p)
		}
	}
	if s.keys[key] == k && k.idle() {
		delete(s.keys, key)
	}
	s.mu.Unlock()
	if err == nil {
		l.table.store.available()
	}
	return r, err
}

// most returns the number of permits that an operation might take.
func (p *plan) most(op limits.Op) int64 {
	switch op.Kind {
	case limits.Take, limits.Reserve:
		if op.Cost <= p.capacity {
			return op.Cost
		}
	case limits.TakeAtMost:
		return min(op.Cost, p.capacity)
	case limits.Drain:
		return p.capacity
	case limits.Refund, limits.Reset, limits.Check:
	}
	return 0
}

// refund gives back a take that was decided here. Permits that were charged to the store in the
// meantime stay charged: the key can be limited too much, until they recover.
func (l *local) refund(ctx context.Context, key string, p *plan, op limits.Op) (limits.Result, error) {
	op.Receipt.At = ^op.Receipt.At
	s := l.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	k := l.know(s, key)
	before := make([]int64, len(k.parts))
	for i, a := range k.parts { // p can differ from the limit that was charged
		before[i] = l.used(ctx, key, a)
	}
	r, err := l.apply(ctx, key, p, op, l.table.instances().n)
	for i, a := range k.parts {
		if op.Receipt.At > a.sent && a.part.charged(&op.Receipt) {
			l.owe(a, -max(0, min(a.debt, op.Cost, before[i]-l.used(ctx, key, a))))
		}
	}
	return r, err
}

// charged reports whether a take of this process was charged under the limit.
func (p *plan) charged(take *limits.Receipt) (is bool) {
	p.shares.Range(func(_, share any) bool {
		is = take.Plan != nil && slices.Contains(take.Plan.Rules, share.(*limits.Plan).Rules[0]) //nolint:forcetypeassert // nothing else is stored
		return !is
	})
	return is
}

// used returns the usage of a share: the permits that were granted here or charged by raise, and have not recovered.
func (l *local) used(ctx context.Context, key string, a *account) int64 {
	n := cmp.Or(a.told, l.table.instances().n)
	r, err := l.apply(ctx, key, a.part, limits.Op{}, n)
	if err != nil {
		return math.MaxInt64
	}
	s := split(a.part.limit, n)
	if s.Algorithm == limits.TokenBucket {
		return int64(mulDiv(int64(r.FullAfter), s.Permits, int64(s.Period)))
	}
	used := r.Limit - r.Remaining
	if r.Remaining == 0 { // there can be reservations
		used = max(used, r.Limit*int64((r.FullAfter+s.Period-1)/s.Period))
	}
	return used
}

// owe adds permits to the debt of an account; a negative number reduces it.
func (l *local) owe(a *account, permits int64) {
	before := a.debt
	a.debt = max(0, before+permits)
	l.table.store.owing.Add(a.debt - before)
}

// forget drops the usage and the debt of a key in this process, except for takes under way, which the store might grant
// after a reset.
func (l *local) forget(ctx context.Context, s *shard, key string, p *plan, n int64) (limits.Result, error) {
	if k := s.keys[key]; k != nil {
		for _, a := range k.parts {
			l.owe(a, -a.debt)
		}
		if k.parts, k.unknown, k.covered = nil, 0, 0; k.idle() {
			delete(s.keys, key)
		}
	}
	return l.apply(ctx, key, p, limits.Op{Kind: limits.Reset}, n)
}
