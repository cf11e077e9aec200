// Package memory keeps the keys of a limiter in the memory of the process.
package memory

import (
	"cmp"
	"context"
	"hash/maphash"
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/limits"
)

// Bounds of the number of keys.
const (
	DefaultMaxKeys = 1 << 20
	MaxMaxKeys     = 1 << 30
)

// A Table keeps keys in memory. It spreads them over shards by their hash. Time is monotonic, and for one key never goes back. It
// starts no goroutine: the calls also drop recovered keys.
//
// A key takes 16 bytes of a slot, and slots are between 2/5 and 7/8 full. A key with joined limits has some 60 bytes more for each
// of them; so has the key of a limit that comes after 65,535 others that are in use.
//
// At the bound, a recovered key is dropped first, and nothing is lost. If there is none, the key with the least usage of 16 is
// evicted, and a sketch keeps its usage: if it comes back, it can be limited too much, never too little. With many times MaxKeys
// keys in use, new keys can be too. A Reset or a Refund does not change the sketch.
//
// Below the bound, a key stays for up to two minutes after it has recovered, under any algorithm. A bucket of which takes were
// refunded before later ones has recovered, in this sense, when it would be full without these refunds. This needs one call a minute
// to the table, on any key; Counts is one. A call after a longer pause makes up for it, for 10 ms at most: for more than some hundred
// thousand keys the calls that follow do the rest.
type Table struct {
	*limits.Plans

	maxKeys int
	base    time.Time
	seed    maphash.Seed
	shards  []shard       // a power of two
	numbers numbers       // of the limits that slots name
	due     atomic.Int64  // when the next shard must be swept
	turn    atomic.Uint64 // number of shards swept so far
	swept   func()        // of tests: is called after the sweep of a shard
	keys    atomic.Int64  // slots in use
	evicted atomic.Uint64
	closed  atomic.Bool
}

// New makes a table of so many keys at most, or one more for each 16. If zero, it is DefaultMaxKeys.
func New(maxKeys int) *Table {
	maxKeys = cmp.Or(maxKeys, DefaultMaxKeys)
	t := &Table{maxKeys: maxKeys, base: time.Now(), seed: maphash.MakeSeed(), shards: make([]shard, shardsFor(maxKeys))}
	t.Plans = limits.NewPlans(limits.Clock{Unix: t.base.UnixNano()}, nil)
	t.numbers.rules.Store(&[]*limits.Rule{nil})
	t.numbers.wanted.Store(math.MaxInt64)
	t.due.Store(sweepEvery)
	return t
}

// Close ends the use of the table. Later operations return core.ErrClosed.
func (t *Table) Close() { t.closed.Store(true) }

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
func (t *Table) sweep(now int64) {
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

// Decisions returns how many takes TakeOne has counted.
func (t *Table) Decisions() (allowed, rejected uint64) {
	t.each(func(s *shard) { allowed, rejected = allowed+s.allowed, rejected+s.rejected })
	return allowed, rejected
}

// Counts returns the number of keys in the table, and the number evicted with usage.
func (t *Table) Counts() (keys int, evicted uint64) {
	t.sweep(t.now())
	return int(t.keys.Load()), t.evicted.Load()
}

// now is the time of the table.
func (t *Table) now() int64 { return int64(time.Since(t.base)) }

// each calls f with each shard, locked.
func (t *Table) each(f func(s *shard)) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		f(s)
		s.mu.Unlock()
	}
}

// shard is where a key is.
func (t *Table) shard(hash uint64) *shard { return &t.shards[hash&uint64(len(t.shards)-1)] }

// Apply does one operation on one key. It does not wait, and ends with no context.
func (t *Table) Apply(_ context.Context, key string, p *limits.Plan, op limits.Op) (limits.Result, error) {
	return t.applyAt(t.now(), key, p, &op)
}

func (t *Table) applyAt(now int64, key string, p *limits.Plan, op *limits.Op) (r limits.Result, err error) {
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

// TakeOne is a short cut for the most common operation: a Take of at least one permit of a bucket or a fixed window, of a key that
// has a slot with a word of this limit. Otherwise it returns false, and has done nothing. It copies no account, and if count is set,
// it counts in the shard, under its lock, instead of with an atomic (BenchmarkTake). Unless refuse is set, it returns false for a
// refusal too, and does not count it.
func (t *Table) TakeOne(key string, p *limits.Rule, cost int64, refuse, count bool, r *limits.Result) bool {
	return t.takeOne(clock, key, p, cost, refuse, count, r)
}

func (t *Table) takeOne(now int64, key string, p *limits.Rule, cost int64, refuse, count bool, r *limits.Result) bool {
	if cost <= 0 || cost > p.Capacity || t.closed.Load() {
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
	switch {
	case !count:
	case r.Allowed:
		s.allowed++
	case refuse:
		s.rejected++
	}
	s.mu.Unlock()
	return r.Allowed || refuse
}

// clock is a time for takeOne that means now: takeOne reads the clock under the lock. So times never go back from one take to the next,
// and goroutines that take of one key do not compete between two locks.
const clock = math.MinInt64

// Owe charges a key under each limit of a plan with usage that is known from elsewhere: a number of permits, all of which come back
// by until. A bucket, which recovers evenly, is charged the usage that it recovers until then. An aligned window stays aligned, and its
// usage ends with the current window. Owe never lowers the usage of a key: a key with more usage stays as it is.
func (t *Table) Owe(key string, p *limits.Plan, permits int64, until time.Time) error {
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

// lock locks the shard of a key for an operation of a cost, and goes on to its time.
func (t *Table) lock(now int64, hash uint64, cost int64) (*shard, error) {
	switch {
	case t.closed.Load():
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
	if s.last = max(now, s.last); s.last-s.swept > t.Horizon() { // before words are too old to be read
		s.sweep(t, s.last)
	}
	return s, nil
}
