package memory

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// numbers are the numbers of limits, from 1, by which slots name them. If all are in use, the keys of further limits take
// more memory, as joined limits do, until the number of a limit that no slot names is free again.
type numbers struct {
	mu     sync.Mutex
	rules  atomic.Pointer[[]*limits.Rule] // by their numbers
	free   []uint32
	wanted atomic.Int64 // from when on they are to be collected, since a limit has none
	next   int64        // when that is at the earliest
}

// maxNumber is the highest number that a slot has room for.
const maxNumber = 1<<16 - 1

// named returns the limits by their numbers. It is read with a shard locked.
func (t *Table) named() []*limits.Rule { return *t.numbers.rules.Load() }

// number returns the number of a limit, or 0 if there is none for it. The shard whose slot will have it is locked.
func (t *Table) number(r *limits.Rule) uint32 {
	if id := r.Number.Load(); id > 0 {
		return id
	}
	n := &t.numbers
	n.mu.Lock()
	defer n.mu.Unlock()
	id, rules, last := r.Number.Load(), t.named(), len(n.free)-1
	switch {
	case id > 0:
		return id
	case last >= 0:
		id, n.free = n.free[last], n.free[:last]
		rules[id] = r // no slot has it
	case len(rules) > maxNumber:
		n.wanted.Store(n.next)
		return 0
	default:
		id, rules = uint32(len(rules)), append(rules, r) // a reader of the old slice does not look beyond its end
		n.rules.Store(&rules)
	}
	r.Number.Store(id)
	return id
}

// renumber frees the numbers that no slot has. If they are few, it is not repeated for a second.
func (t *Table) renumber(now int64) {
	for i := range t.shards { // a number is written and read with a shard locked
		t.shards[i].mu.Lock()
		defer t.shards[i].mu.Unlock()
	}
	n := &t.numbers
	n.mu.Lock()
	defer n.mu.Unlock()
	if now < n.wanted.Swap(math.MaxInt64) {
		return // another call did it
	}
	rules, used := t.named(), make([]bool, maxNumber+1)
	for i := range t.shards {
		for _, s := range t.shards[i].slots {
			used[s.number()] = true
		}
	}
	for id := 1; id < len(rules); id++ {
		if r := rules[id]; r != nil && !used[id] {
			r.Number.Store(0)
			rules[id], n.free = nil, append(n.free, uint32(id))
		}
	}
	if len(n.free) < maxNumber/16 {
		n.next = now + int64(time.Second)
	}
}
