package denycache

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

const (
	longestDenial = time.Second // the longest time for which a take is refused without the store
	maxAnswers    = 4           // of one key, for different costs and limits
)

// denials are the takes that the store has refused. A refused cost stays refused until the earliest time at which it could be granted:
// other takes can only delay that time, and refunds and resets drop the entry. (A take under another limit can make it earlier. Then a
// denial is too long, by less than longestDenial.)
type denials struct {
	begun  time.Time // all times are durations since then
	life   time.Duration
	seed   maphash.Seed
	shards []denialShard
}

type denialShard struct {
	mu     sync.Mutex
	room   int
	epoch  uint64 // how often an entry was dropped: earlier decisions are not learned
	denied map[denialKey]*denial
	ring   []denialKey // in the order of arrival; keys that are no longer in denied leave a gap
	next   int
}

type denialKey struct{ table, key string }

type denial struct {
	place   int           // in the ring
	quiet   time.Duration // until then no refusal is learned
	answers []answer
}

type answer struct {
	plan   *limits.Plan
	cost   int64
	result limits.Result
	until  time.Duration // the end of the refusal, counted from when the take was sent, so that it is not too late
	at     time.Duration // when the result was known
}

func newDenials(keys int) *denials {
	d := &denials{begun: time.Now(), life: longestDenial, seed: maphash.MakeSeed(), shards: make([]denialShard, min(keys, 16))}
	for i := range d.shards {
		d.shards[i].room = keys / len(d.shards)
		d.shards[i].denied = map[denialKey]*denial{}
	}
	return d
}

func (d *denials) shard(key string) *denialShard {
	return &d.shards[maphash.String(d.seed, key)%uint64(len(d.shards))]
}

// A question is a take that the store has to decide.
type question struct {
	shard *denialShard // nil if the answer is not learned
	epoch uint64
	sent  time.Duration
}

// refuse refuses a take that the store would certainly refuse. Otherwise learn can note the answer of the store to q.
func (d *denials) refuse(table, key string, plan *limits.Plan, op limits.Op) (r limits.Result, refused bool, q question) {
	if op.Kind != limits.Take || op.Cost <= 0 {
		return r, false, q
	}
	now, s := time.Since(d.begun), d.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.denied[denialKey{table, key}]; e != nil {
		for i := range e.answers {
			a := &e.answers[i]
			if a.plan != plan || a.cost != op.Cost || now >= a.until {
				continue
			}
			r, now = a.result, now-a.at
			r.RetryAfter -= now
			r.FullAfter -= now
			if r.NextAfter -= now; r.NextAfter <= 0 {
				r.NextAfter = r.RetryAfter // some permits have recovered, but not enough
			}
			return r, true, q
		}
	}
	return r, false, question{s, s.epoch, now}
}

// learn notes a refusal.
func (d *denials) learn(q question, table, key string, plan *limits.Plan, cost int64, r limits.Result) {
	if q.shard == nil || r.Allowed || r.RetryAfter <= 0 {
		return
	}
	now, s := time.Since(d.begun), q.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.denied[denialKey{table, key}]
	if s.epoch != q.epoch || e != nil && now < e.quiet {
		return
	}
	if e == nil {
		e = s.addLocked(table, key)
	}
	r.Receipt = limits.Receipt{At: -1, Plan: plan} // -1: decided without the store
	e.put(answer{plan: plan, cost: cost, result: r, until: q.sent + min(r.RetryAfter, d.life), at: now})
}

// addLocked adds an entry for a key, and evicts the oldest entry if there is no room.
func (s *denialShard) addLocked(table, key string) *denial {
	k := denialKey{table, strings.Clone(key)}
	e := &denial{place: len(s.ring)}
	if e.place < s.room {
		s.ring = append(s.ring, k)
	} else {
		e.place, s.next = s.next, (s.next+1)%s.room
		if first := s.denied[s.ring[e.place]]; first != nil && first.place == e.place {
			delete(s.denied, s.ring[e.place])
		}
		s.ring[e.place] = k
	}
	s.denied[k] = e
	return e
}

// put replaces the answer to the same question, or, if there is none and no room, the answer that ends first.
func (e *denial) put(a answer) {
	first := 0
	for i, old := range e.answers {
		if old.plan == a.plan && old.cost == a.cost {
			e.answers[i] = a
			return
		}
		if old.until < e.answers[first].until {
			first = i
		}
	}
	if len(e.answers) < maxAnswers {
		e.answers = append(e.answers, a)
	} else {
		e.answers[first] = a
	}
}

// forget drops the entry of a key after an operation that may have freed permits. If they may be freed later, no
// refusal is learned for the time quiet.
func (d *denials) forget(table, key string, quiet time.Duration) {
	s := d.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	delete(s.denied, denialKey{table, key})
	if quiet > 0 {
		s.addLocked(table, key).quiet = time.Since(d.begun) + quiet
	}
}
