package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/validate"
)

const (
	defaultMaxKeys = 1 << 20
	maxMaxKeys     = 1 << 30
)

// NewMemory makes a [Store] in the memory of the process: for a wrapper of stores, or for
// several limiters with one table. A [Limiter] without a Store makes its own. It starts no
// goroutine: the calls to a table also drop its recovered keys. Time is monotonic, and
// for one key never goes back.
//
// maxKeys is the number of keys that each table keeps: up to 2^30. If zero, it is 2^20.
// A key takes 16 bytes of a slot, and slots are between 2/5 and 7/8 full. The
// bound can be exceeded by one key for each 16. A key with joined limits
// has some 60 bytes more for each of them; so has the key of a limit that comes after 65,535 others that are in use.
//
// At the bound, a recovered key is dropped first, and nothing is lost.
// If there is none, the key with the least usage of 16 is evicted, and a sketch keeps its
// usage: if it comes back, it can be limited too much, never too little. With many
// times maxKeys keys in use, new keys can be too. A Reset or a Refund does not
// change the sketch.
//
// Below the bound, a key stays for up to two minutes after it has recovered, under
// any algorithm. A bucket of which takes were refunded before later ones has recovered, in this
// sense, when it would be full without these refunds. Its memory, and a sketch whose usage has recovered, are then free.
// This needs one call a minute to the same table, on any key: a Peek or Stats is
// enough. A call after a longer pause makes up for it, for 10 ms at most: for more
// than some hundred thousand keys the calls that follow do the rest.
func NewMemory(maxKeys int) (Store, error) {
	check := validate.Of("ratelimit.NewMemory")
	checkMaxKeys(check, "maxKeys", maxKeys)
	if err := check.Err(); err != nil {
		return nil, err
	}
	return newMemory(maxKeys), nil
}

func checkMaxKeys(check *validate.Check, name string, maxKeys int) {
	check.That(maxKeys >= 0 && maxKeys <= maxMaxKeys, name, maxKeys, fmt.Sprintf("must be 0 to %d (0 means %d)", maxMaxKeys, defaultMaxKeys))
}

// A memory is the Store of [NewMemory].
type memory struct {
	maxKeys int
	mu      sync.Mutex
	tables  map[string]*table
	closed  atomic.Bool
}

func newMemory(maxKeys int) *memory {
	return &memory{maxKeys: cmp.Or(maxKeys, defaultMaxKeys), tables: map[string]*table{}}
}

// Open returns the table of that name; the same name is the same table.
func (m *memory) Open(name string) (limits.Table, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed.Load() {
		return nil, core.ErrClosed
	}
	t := m.tables[name]
	if t == nil {
		t = newTable(m)
		m.tables[name] = t
	}
	return t, nil
}

// Close drops all tables.
func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed.Store(true)
	m.tables = nil
	return nil
}

// A table spreads its keys over shards by their hash.
type table struct {
	*limits.Plans

	store   *memory
	base    time.Time
	seed    maphash.Seed
	shards  []shard       // a power of two
	numbers numbers       // of the limits that slots name
	due     atomic.Int64  // when the next shard must be swept
	turn    atomic.Uint64 // number of shards swept so far
	swept   func()        // of tests: is called after the sweep of a shard
	keys    atomic.Int64  // slots in use
	evicted atomic.Uint64
}

func newTable(m *memory) *table {
	t := &table{store: m, base: time.Now(), seed: maphash.MakeSeed(), shards: make([]shard, shardsFor(m.maxKeys))}
	t.Plans = limits.NewPlans(limits.Clock{Unix: t.base.UnixNano()}, nil)
	t.numbers.rules.Store(&[]*limits.Rule{nil})
	t.numbers.wanted.Store(math.MaxInt64)
	t.due.Store(sweepEvery)
	return t
}

// shardsFor is how many shards there are: each for 16 keys at least and, as far as a slot
// goes, 4096 at most, so that moving them all takes some 50 µs.
func shardsFor(maxKeys int) int {
	floor := func(n int) int { return 1 << (bits.Len(uint(max(1, n))) - 1) }
	return max(min(256, floor(maxKeys/16)), min(1<<16, floor(maxKeys/4096)))
}

const (
	// sweepEvery is the time in which each shard is swept once.
	sweepEvery = int64(time.Minute)
	// sweepFor is the time after which one call leaves the rest to the next ones.
	sweepFor = int64(10 * time.Millisecond)
)

// sweep sweeps the shards whose turn has come. A call that comes after a pause does the
// work of the pause.
func (t *table) sweep(now int64) {
	due := t.due.Load()
	if now < due {
		return
	}
	shards := int64(len(t.shards))
	step := sweepEvery / shards
	n := min((now-due)/step+1, shards)
	if !t.due.CompareAndSwap(due, max(due, now-sweepEvery)+n*step) {
		return // another call does it
	}
	for end := t.now() + sweepFor; n > 0; n-- {
		if t.now() > end {
			t.due.Add(-n * step)
			return
		}
		s := &t.shards[t.turn.Add(1)&uint64(shards-1)]
		s.mu.Lock()
		s.sweep(t, max(now, s.last))
		s.mu.Unlock()
		if t.swept != nil {
			t.swept()
		}
	}
}

// counts are the decisions of takeOne.
func (t *table) counts() (allowed, rejected uint64) {
	t.each(func(s *shard) { allowed, rejected = allowed+s.allowed, rejected+s.rejected })
	return allowed, rejected
}

// Counts returns the number of keys in the table, and the number evicted with usage.
func (t *table) Counts() (keys int, evicted uint64) {
	t.sweep(t.now())
	return int(t.keys.Load()), t.evicted.Load()
}

// now is the time of the table.
func (t *table) now() int64 { return int64(time.Since(t.base)) }

// each calls f with each shard, locked.
func (t *table) each(f func(s *shard)) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		f(s)
		s.mu.Unlock()
	}
}

// shard is where a key is.
func (t *table) shard(hash uint64) *shard { return &t.shards[hash&uint64(len(t.shards)-1)] }

// Apply does one operation on one key. It does not wait, and ends with no
// context.
func (t *table) Apply(_ context.Context, key string, p *limits.Plan, op limits.Op) (Result, error) {
	return t.applyAt(t.now(), key, p, &op)
}

func (t *table) applyAt(now int64, key string, p *limits.Plan, op *limits.Op) (r Result, err error) {
	hash := maphash.String(t.seed, key)
	s, err := t.lock(now, hash, op.Cost)
	if err != nil {
		return r, err
	}
	defer s.mu.Unlock()
	if op.Kind == limits.Refund && op.Receipt.At < s.forgot {
		op = &limits.Op{}
	}
	k := limits.Key{Now: s.last}
	s.load(t, hash, &k)
	r = k.Apply(p, op)
	s.save(t, hash, &k)
	return r, nil
}

// takeOne is a short cut for the most common operation: a Take of at least one permit of a bucket or a fixed window, of a key that
// has a slot with a word of this limit. Otherwise it returns false, and has done nothing. It copies no account, and counts in the
// shard, under its lock, instead of with an atomic (BenchmarkTake). Unless refuse is set, it returns false for a refusal too, and does
// not count it.
func (t *table) takeOne(now int64, key string, p *limits.Rule, cost int64, refuse bool, r *Result) bool {
	if cost <= 0 || cost > p.Capacity || t.store.closed.Load() {
		return false
	}
	hash := maphash.String(t.seed, key)
	s := t.shard(hash)
	s.mu.Lock() // nothing of the user's is called
	i, found := s.find(hash)
	if now == clock {
		now = t.now()
	}
	now = max(now, s.last)
	if !found || !s.slots[i].is(p.Number.Load()) || now-s.swept > p.Horizon || now >= t.due.Load() {
		s.mu.Unlock()
		return false
	}
	if word := &s.slots[i].word; p.Spec.Algorithm == limits.TokenBucket {
		p.TakeBucket(word, now, cost, r)
	} else if !p.TakeWindow(word, now, cost, r) {
		s.mu.Unlock()
		return false
	}
	s.last = now
	if r.Allowed {
		s.allowed++
	} else if refuse {
		s.rejected++
	}
	s.mu.Unlock()
	return r.Allowed || refuse
}

// clock is a time for takeOne that means now: takeOne reads the clock under the lock. So times never go back from one take to the next,
// and goroutines that take of one key do not compete between two locks.
const clock = math.MinInt64

// Owe charges a key usage that is known from elsewhere: see limits.OwingTable.
func (t *table) Owe(key string, p *limits.Plan, permits int64, until time.Time) error {
	hash := maphash.String(t.seed, key)
	s, err := t.lock(t.now(), hash, permits)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	k := limits.Key{Now: s.last}
	s.load(t, hash, &k)
	k.Owe(p, limits.Debt{Until: int64(until.Sub(t.base)), Permits: permits})
	s.save(t, hash, &k)
	return nil
}

// lock locks the shard of a key for an operation of a cost.
func (t *table) lock(now int64, hash uint64, cost int64) (*shard, error) {
	switch {
	case t.store.closed.Load():
		return nil, core.ErrClosed
	case cost < 0:
		return nil, limits.CostError(cost)
	}
	t.sweep(now)
	if now >= t.numbers.wanted.Load() {
		t.renumber(now)
	}
	s := t.shard(hash)
	s.mu.Lock()
	s.tick(t, now)
	return s, nil
}
