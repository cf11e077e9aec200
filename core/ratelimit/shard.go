package ratelimit

import (
	"sync"
	"time"
)

// A shard is an open-addressing table with linear probing and no tombstones. Its
// slots hold no pointers, so that a million keys are nothing to the garbage
// collector. What does not fit into a slot has a list beside it.
type shard struct {
	// One cache line, with all that takeOne writes.
	mu                sync.Mutex
	last              int64             // the latest time that was seen: no operation is before it
	slots             []slot            // a power of two, or none
	queues            map[uint64]*queue // those who wait, by the hash of the key
	allowed, rejected uint64            // by takeOne

	swept  int64     // when every slot was looked at last
	used   int       // slots that are not empty
	hand   int       // where the next search for a victim starts
	lists  [][]int64 // the states that are more than a word; a slot has the place
	free   []int     // places that are free
	sketch *sketch

	_ [48]byte // three cache lines: neighbours do not share one
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

// tick takes the time of an operation, and looks at all slots when it is due.
func (s *shard) tick(t *table, now int64) int64 {
	now = max(now, s.last)
	s.last = now
	if now-s.swept > t.horizon.Load() {
		s.rebuild(t, *t.plans.Load(), now)
	}
	return now
}

// state returns the state of a key as p reads it. A key that is not there may have
// been dropped: then it is what the sketch says. Else it is new.
func (s *shard) state(plans []*plan, p *plan, hash uint64, now int64) state {
	if i, found := s.find(hash); found && plans[s.slots[i].plan()].salt == p.salt { // else it is a key of another kind, by chance
		return s.read(&s.slots[i], plans)
	}
	if s.sketch != nil {
		if d := s.sketch.get(hash >> tagShift); d.until > now {
			return p.owing(d.until, d.permits, now)
		}
	}
	return state{}
}

// read is the state in a slot.
func (s *shard) read(n *slot, plans []*plan) state {
	p := plans[n.plan()]
	if p.custom != nil {
		return state{from: p, list: s.lists[n.word]}
	}
	return state{from: p, word: n.word}
}

// store writes the state of a key.
func (s *shard) store(t *table, plans []*plan, hash uint64, now int64, st *state) {
	i, found := s.find(hash)
	n := newSlot(hash, st.from.id, st.word)
	listed := found && plans[s.slots[i].plan()].custom != nil
	if listed && st.from.custom == nil {
		s.release(&s.slots[i], plans)
	}
	if st.from.custom != nil {
		switch free := len(s.free) - 1; {
		case listed:
			n.word = s.slots[i].word
		case free >= 0:
			n.word, s.free = uint64(s.free[free]), s.free[:free]
		default:
			n.word, s.lists = uint64(len(s.lists)), append(s.lists, nil)
		}
		s.lists[n.word] = st.list
	}
	if found {
		s.slots[i] = n
		return
	}
	s.insert(t, plans, now, n)
}

// drop forgets a key.
func (s *shard) drop(t *table, plans []*plan, hash uint64) {
	if i, found := s.find(hash); found {
		s.release(&s.slots[i], plans)
		s.remove(t, i)
	}
}

// release gives back what a slot has beside it.
func (s *shard) release(n *slot, plans []*plan) {
	if plans[n.plan()].custom != nil {
		s.lists[n.word] = nil
		s.free = append(s.free, int(n.word))
	}
}

// insert adds a key that is not there.
func (s *shard) insert(t *table, plans []*plan, now int64, n slot) {
	if s.used > 0 && t.keys.Load() >= int64(t.store.maxKeys) {
		s.evict(t, plans, now)
	}
	if (s.used+1)*8 > len(s.slots)*7 {
		if now-s.swept < churn && s.used > 0 {
			s.grow()
		} else {
			s.rebuild(t, plans, now)
		}
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

// neutralAt is the time from which a slot can be dropped and nothing is lost; now if it can
// be.
func (s *shard) neutralAt(n *slot, plans []*plan, now int64) int64 {
	p := plans[n.plan()]
	if p.custom == nil && (now-s.swept)/5 > p.horizon {
		return now
	}
	st := s.read(n, plans)
	return p.neutralAt(&st, now)
}

// churn is how long ago a shard must have been swept for another sweep to be worth its
// while: keys that come again sooner are not to be made anew each time.
const churn = int64(time.Second)

// grow moves all slots into twice as many.
func (s *shard) grow() {
	old := s.slots
	s.slots, s.hand = make([]slot, 2*len(old)), 0
	for _, n := range old {
		if n.tag != 0 {
			s.put(n)
		}
	}
}

// rebuild drops what is neutral and moves the rest into new slots: twice as many
// where fewer than one in sixteen would be left to fill.
func (s *shard) rebuild(t *table, plans []*plan, now int64) {
	owing := make([]slot, 0, s.used)
	var gone []slot
	for i := range s.slots {
		switch n := &s.slots[i]; {
		case n.tag == 0:
		case s.neutralAt(n, plans, now) > now:
			owing = append(owing, *n)
		case plans[n.plan()].custom != nil:
			gone = append(gone, *n)
		}
	}
	for i := range gone { // now that no algorithm can panic any more
		s.release(&gone[i], plans)
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
	if len(s.free) == len(s.lists) {
		s.lists, s.free = nil, nil
	}
}

// evict drops one key: a neutral one of the 16 that are next, or else the one of
// them that owes least, whose debt the sketch keeps.
func (s *shard) evict(t *table, plans []*plan, now int64) {
	mask := len(s.slots) - 1
	victim, least := -1, int64(0)
	for seen, i := 0, s.hand; seen < min(16, s.used); i = (i + 1) & mask {
		s.hand = (i + 1) & mask
		n := &s.slots[i]
		if n.tag == 0 {
			continue
		}
		seen++
		full := s.neutralAt(n, plans, now)
		if full <= now {
			s.release(n, plans)
			s.remove(t, i)
			return
		}
		if victim < 0 || full < least {
			victim, least = i, full
		}
	}
	if s.sketch == nil {
		s.sketch = newSketch(t.store.maxKeys / len(t.shards))
	}
	n := &s.slots[victim]
	st := s.read(n, plans)
	owes := debt{least, plans[n.plan()].taken(&st, now)}
	s.sketch.add(n.tag>>tagShift, owes, now)
	t.evicted.Add(1)
	s.release(n, plans)
	s.remove(t, victim)
}
