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

// tick takes the time of an operation, and sweeps before words are too old to be read.
func (s *shard) tick(t *table, now int64) int64 {
	now = max(now, s.last)
	s.last = now
	if now-s.swept > t.horizon.Load() {
		s.sweep(t, *t.plans.Load(), now)
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
	if !found {
		s.makeRoom(t, plans, now)
	}
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
	s.put(n)
	s.used++
	t.keys.Add(1)
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

// makeRoom makes room for one more key.
func (s *shard) makeRoom(t *table, plans []*plan, now int64) {
	if s.used > 0 && t.keys.Load() >= int64(t.store.maxKeys) {
		s.evict(t, plans, now)
	}
	if (s.used+1)*8 <= len(s.slots)*7 {
		return
	}
	if now-s.swept >= churn {
		s.sweep(t, plans, now)
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

// fullAt is the time at which a slot owes nothing any more; now if it does not.
func (s *shard) fullAt(n *slot, plans []*plan, now int64) int64 {
	if s.outlived(n, plans, now) {
		return now
	}
	st := s.read(n, plans)
	return plans[n.plan()].fullAt(&st, now)
}

// neutral reports whether a slot can be dropped and nothing is lost.
func (s *shard) neutral(n *slot, plans []*plan, now int64) bool {
	if s.outlived(n, plans, now) {
		return true
	}
	st := s.read(n, plans)
	return plans[n.plan()].neutralAt(&st, now) <= now
}

// outlived reports whether a slot is so old that its word can no longer be read.
func (s *shard) outlived(n *slot, plans []*plan, now int64) bool {
	p := plans[n.plan()]
	return p.custom == nil && (now-s.swept)/5 > p.horizon
}

// churn is how long ago a shard must have been swept to be swept for room: keys that come
// again sooner are not dropped and made anew each time.
const churn = int64(time.Second)

// sweep drops the keys that are neutral, moves the rest into fewer slots if they fit, and
// releases what the shard no longer needs beside them.
func (s *shard) sweep(t *table, plans []*plan, now int64) {
	var neutral []int
	for i := range s.slots {
		if n := &s.slots[i]; n.tag != 0 && s.neutral(n, plans, now) {
			neutral = append(neutral, i)
		}
	}
	for _, i := range neutral { // now that no algorithm can panic any more
		s.release(&s.slots[i], plans)
		s.slots[i] = slot{}
	}
	s.used -= len(neutral)
	t.keys.Add(-int64(len(neutral)))
	size := 0
	if s.used > 0 {
		size = min(len(s.slots), sizeFor(s.used))
	}
	if len(neutral) > 0 || size < len(s.slots) {
		s.move(size)
	}
	s.compact(plans)
	if s.sketch != nil && s.sketch.until <= now {
		s.sketch = nil
	}
	if len(s.queues) == 0 {
		s.queues = nil // a map does not shrink
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

// compact closes the gaps in lists, if more than half of the places are free.
func (s *shard) compact(plans []*plan) {
	if len(s.free)*2 <= len(s.lists) {
		return
	}
	var lists [][]int64
	if used := len(s.lists) - len(s.free); used > 0 {
		lists = make([][]int64, 0, used)
	}
	for i := range s.slots {
		if n := &s.slots[i]; n.tag != 0 && plans[n.plan()].custom != nil {
			lists = append(lists, s.lists[n.word])
			n.word = uint64(len(lists) - 1)
		}
	}
	s.lists, s.free = lists, nil
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
		full := s.fullAt(n, plans, now)
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
