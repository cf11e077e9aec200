package ratelimit

import (
	"sync"
)

// A shard is an open-addressing table with linear probing and no tombstones. It
// holds no pointers, so that a million keys are nothing to the garbage collector.
type shard struct {
	mu     sync.Mutex
	last   int64  // the latest time that was seen: no operation is before it
	swept  int64  // when every slot was looked at last
	slots  []slot // a power of two, or none
	used   int    // slots that are not empty
	hand   int    // where the next search for a victim starts
	sketch *sketch
	_      [48]byte // two cache lines: neighbours do not share one
}

// A slot is a key: 48 bits of its hash, which with those that chose the shard
// identify it, its plan, and the word that the plan keeps. A plan of 0 is an
// empty slot. Keys that agree in all those bits (with 256 shards and n keys,
// n²/2^57 pairs) share their permits.
type slot struct {
	tag  uint64
	word uint64
}

const tagShift = 16

func newSlot(hash uint64, id PlanID, word uint64) slot {
	return slot{tag: hash>>tagShift<<tagShift | uint64(id), word: word}
}

func (s *slot) plan() PlanID { return PlanID(s.tag) } // the lower 16 bits

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

// word returns the word of a key, and the plan that wrote it. A key that is not
// there may have been dropped: then the word is what the sketch says. Else it is
// new, and the plan is nil.
func (s *shard) word(plans []*plan, p *plan, i int, found bool, hash uint64, now int64) (word uint64, from *plan) {
	if found {
		return s.slots[i].word, plans[s.slots[i].plan()]
	}
	if s.sketch != nil {
		if d := s.sketch.get(hash >> tagShift); d.until > now {
			return p.owing(d.until, d.permits, now), p
		}
	}
	return 0, nil
}

// refund gives back what a take under p took. A window stays in the hands of the
// plan that wrote it, which may know of more than p can hold.
func (s *shard) refund(plans []*plan, p *plan, i int, found bool, hash uint64, now int64, op Op) Result {
	word, from := s.word(plans, p, i, found, hash, now)
	if !found { // nothing to give back to
		_, r, _ := p.apply(word, from, now, Op{})
		return r
	}
	keep := p
	if p.limit.Algorithm == FixedWindow {
		keep = from
	}
	if next, _, changed := keep.apply(word, from, now, op); changed {
		word, from = next, keep
		s.slots[i] = newSlot(hash, keep.id, word)
	}
	_, r, _ := p.apply(word, from, now, Op{})
	return r
}

// insert adds a key that is not there.
func (s *shard) insert(t *table, plans []*plan, now int64, n slot) {
	if s.used > 0 && t.keys.Load() >= int64(t.store.maxKeys) {
		s.evict(t, plans, now)
	}
	if (s.used+1)*8 > len(s.slots)*7 {
		s.rebuild(t, plans, now)
	}
	s.put(n)
	s.used++
	t.keys.Add(1)
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

// remove empties a slot and closes the gap.
func (s *shard) remove(t *table, i int) {
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

// neutral tells whether a slot owes nothing any more.
func (s *shard) neutral(n slot, plans []*plan, now int64) bool {
	p := plans[n.plan()]
	return (now-s.swept)/5 > p.horizon || p.neutralAt(n.word, now) <= now
}

// rebuild drops what is neutral and moves the rest into new slots: twice as many
// where fewer than one in sixteen would be left to fill.
func (s *shard) rebuild(t *table, plans []*plan, now int64) {
	owing := make([]slot, 0, s.used)
	for _, n := range s.slots {
		if n.tag != 0 && !s.neutral(n, plans, now) {
			owing = append(owing, n)
		}
	}
	size := 8
	for (len(owing)+1)*16 > size*13 {
		size *= 2
	}
	s.slots = make([]slot, size)
	for _, n := range owing {
		s.put(n)
	}
	t.keys.Add(int64(len(owing) - s.used))
	s.used, s.hand, s.swept = len(owing), 0, now
}

// evict drops one key: a neutral one of the 16 that are next, or else the one of
// them that owes least, whose debt the sketch keeps.
func (s *shard) evict(t *table, plans []*plan, now int64) {
	mask := len(s.slots) - 1
	victim, least := -1, int64(0)
	for seen, i := 0, s.hand; seen < min(16, s.used); i = (i + 1) & mask {
		s.hand = (i + 1) & mask
		n := s.slots[i]
		if n.tag == 0 {
			continue
		}
		seen++
		neutral := plans[n.plan()].neutralAt(n.word, now)
		if neutral <= now {
			s.remove(t, i)
			return
		}
		if victim < 0 || neutral < least {
			victim, least = i, neutral
		}
	}
	if s.sketch == nil {
		s.sketch = newSketch(t.store.maxKeys / len(t.shards))
	}
	n := s.slots[victim]
	s.sketch.add(n.tag>>tagShift, debt{least, plans[n.plan()].taken(n.word, now)}, now)
	t.evicted.Add(1)
	s.remove(t, victim)
}
