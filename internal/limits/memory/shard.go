package memory

import (
	"maps"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// A shard is an open-addressing table with linear probing and no tombstones. Its slots hold no
// pointers, so the garbage collector does not scan the keys. If a key needs more than one word,
// its values are stored in accounts.
type shard struct {
	// One cache line, with all that takeOne writes.
	mu                sync.Mutex
	last              int64  // the latest time of an operation: no operation is before it
	slots             []slot // a power of two, or none
	allowed, rejected uint64 // by takeOne

	swept  int64                     // when every slot was looked at last
	used   int                       // slots that are not empty
	hand   int                       // where the next search for a victim starts
	lists  map[uint64][]limits.Value // of keys with more than a word, by their tags
	peak   int                       // of lists, since it was made
	sketch *sketch
	forgot int64 // takes before it are not refunded: how refunds moved them was evicted

	_ [16]byte // two cache lines: neighbors do not share one
}

// A slot is a key: 47 bits of its hash, which with those that chose the shard identify it, a flag,
// the number of its limit, and the word that is kept of it. A tag of 0 is an empty slot. Keys that
// agree in all those bits (with 256 shards and n keys, n²/2^56 pairs) share their permits.
type slot struct {
	tag  uint64
	word uint64
}

const (
	tagShift = 17
	listed   = 1 << 16 // its values are in lists
)

// number is that of the limit of a slot that is not listed; otherwise 0.
func (s *slot) number() uint32 { return uint32(s.tag & (listed - 1)) }

// is reports whether a slot has nothing but the word of a limit.
func (s *slot) is(number uint32) bool { return s.tag&(1<<tagShift-1) == uint64(number) }

// find returns the place of a key, or where the search for it ended.
func (s *shard) find(hash uint64) (i int, found bool) {
	if len(s.slots) == 0 {
		return 0, false
	}
	mask := len(s.slots) - 1
	want := hash >> tagShift
	for i = int(want) & mask; ; i = (i + 1) & mask {
		switch tag := s.slots[i].tag; {
		case tag == 0:
			return i, false
		case tag>>tagShift == want:
			return i, true
		}
	}
}

// read reads the values in a slot.
func (s *shard) read(t *Table, to *limits.Account, n *slot) {
	if n.tag&listed != 0 {
		to.Load(s.lists[n.tag>>tagShift])
	} else {
		to.Load(nil)
		to.Add(limits.Value{Rule: t.named()[n.number()], State: limits.State{Word: n.word}})
	}
}

// load reads the account of a key. If the key is not in the shard, it might have been evicted: its
// usage is then read from the sketch.
func (s *shard) load(t *Table, hash uint64, k *limits.Key) {
	if i, found := s.find(hash); found {
		s.read(t, &k.Account, &s.slots[i])
	} else if s.sketch != nil {
		k.Owed = s.sketch.get(hash >> tagShift)
	}
}

// save writes the account of a key if it has changed. If it has no values, the key is dropped.
func (s *shard) save(t *Table, hash uint64, k *limits.Key) {
	if !k.Changed {
		return
	}
	switch i, found := s.find(hash); {
	case len(k.Values()) > 0 && found:
		s.slots[i] = s.fill(t, s.slots[i], k.Values())
	case len(k.Values()) > 0:
		s.makeRoom(t, k.Now)
		s.put(s.fill(t, slot{tag: hash >> tagShift << tagShift}, k.Values()))
		s.used++
		t.keys.Add(1)
	case found:
		s.remove(t, i)
	}
}

// fill returns a slot with the values of a key.
func (s *shard) fill(t *Table, n slot, values []limits.Value) slot {
	tag := n.tag >> tagShift
	if v := &values[0]; len(values) == 1 && !v.Rule.Listed() && v.Moved == 0 {
		if number := t.number(v.Rule); number > 0 {
			s.release(&n)
			return slot{tag<<tagShift | uint64(number), v.Word}
		}
	}
	if list := s.lists[tag]; len(list) == len(values) {
		copy(list, values)
	} else {
		if s.lists == nil {
			s.lists = map[uint64][]limits.Value{}
		}
		s.lists[tag] = append(make([]limits.Value, 0, len(values)), values...)
		s.peak = max(s.peak, len(s.lists))
	}
	return slot{tag: tag<<tagShift | listed}
}

// release drops the values of a slot that are in lists.
func (s *shard) release(n *slot) {
	if n.tag&listed != 0 {
		delete(s.lists, n.tag>>tagShift)
	}
}

// makeRoom makes room for one more key.
func (s *shard) makeRoom(t *Table, now int64) {
	if s.used > 0 && t.keys.Load() >= int64(t.maxKeys) {
		s.evict(t, now)
	}
	if (s.used+1)*8 <= len(s.slots)*7 {
		return
	}
	if now-s.swept >= churn {
		s.sweep(t, now)
	}
	if size := sizeFor(s.used); size > len(s.slots) {
		s.move(size)
	}
}

// put places a slot where there is room.
func (s *shard) put(n slot) {
	mask := len(s.slots) - 1
	i := int(n.tag>>tagShift) & mask
	for s.slots[i].tag != 0 {
		i = (i + 1) & mask
	}
	s.slots[i] = n
}

// remove drops the key in a slot, and closes the gap.
func (s *shard) remove(t *Table, i int) {
	s.release(&s.slots[i])
	mask := len(s.slots) - 1
	for j := (i + 1) & mask; s.slots[j].tag != 0; j = (j + 1) & mask {
		home := int(s.slots[j].tag>>tagShift) & mask
		if (j-home)&mask >= (j-i)&mask { // it may move back to i
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = slot{}
	s.used--
	t.keys.Add(-1)
}

// churn is how long ago a shard must have been swept to be swept for room: keys that come
// again sooner are not dropped and made anew each time.
const churn = int64(time.Second)

// sweep drops recovered keys, moves the rest into fewer slots if they fit, and frees the memory that the shard no longer needs.
func (s *shard) sweep(t *Table, now int64) {
	var a limits.Account
	neutral := 0
	for i := range s.slots {
		n := &s.slots[i]
		if n.tag == 0 {
			continue
		}
		s.read(t, &a, n)
		a.Expire(now - s.swept) // what is too old to be read has recovered
		if a.End(now) <= now {
			s.release(n)
			*n = slot{}
			neutral++
		} else if n.tag&listed != 0 {
			a.Touch(now)
			*n = s.fill(t, *n, a.Values())
		}
	}
	s.used -= neutral
	t.keys.Add(-int64(neutral))
	size := 0
	if s.used > 0 {
		size = min(len(s.slots), sizeFor(s.used))
	}
	if neutral > 0 || size < len(s.slots) {
		s.move(size)
	}
	if len(s.lists)*2 < s.peak { // a map does not shrink
		s.lists, s.peak = maps.Clone(s.lists), len(s.lists)
	}
	if s.sketch != nil && s.sketch.until <= now {
		s.sketch = nil
	}
	s.swept = now
}

// sizeFor is how many slots a shard with so many keys has: at least three in sixteen stay
// empty when one more comes.
func sizeFor(keys int) int {
	size := 8
	for (keys+1)*16 > size*13 {
		size *= 2
	}
	return size
}

// move moves all slots into so many new ones.
func (s *shard) move(size int) {
	old := s.slots
	s.slots, s.hand = make([]slot, size), 0
	for _, n := range old {
		if n.tag != 0 {
			s.put(n)
		}
	}
}

// evict drops one of the next 16 keys: a recovered key if there is one, otherwise the key with the
// least usage, which the sketch keeps.
func (s *shard) evict(t *Table, now int64) {
	mask := len(s.slots) - 1
	var a limits.Account
	victim, owes, moved := -1, limits.Debt{}, false
	for seen, i := 0, s.hand; seen < min(16, s.used); i = (i + 1) & mask {
		s.hand = (i + 1) & mask
		n := &s.slots[i]
		if n.tag == 0 {
			continue
		}
		seen++
		s.read(t, &a, n)
		d := a.Debt(now)
		if victim < 0 || d.Until < owes.Until {
			victim, owes, moved = i, d, a.Moved(now)
		}
		if d.Until <= now {
			break
		}
	}
	if moved {
		s.forgot = now + 1
	}
	if owes.Until > now {
		if s.sketch == nil {
			s.sketch = newSketch(t.maxKeys / len(t.shards))
		}
		s.sketch.add(s.slots[victim].tag>>tagShift, owes, now)
		t.evicted.Add(1)
	}
	s.remove(t, victim)
}
