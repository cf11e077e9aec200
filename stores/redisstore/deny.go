package redisstore

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/driver"
)

const (
	longestDenial = time.Second // for which a take is refused without the server
	maxAnswers    = 4           // of one key, for different costs and limits
)

// denials are the takes that the server has refused. A refused cost stays refused until the
// earliest time at which it could be taken: other takes can only delay that, and refunds and
// resets drop the entry. A nil denials has no entries.
type denials struct {
	begun  time.Time // the base of all times
	life   time.Duration
	seed   maphash.Seed
	shards []denialShard
}

type denialShard struct {
	mu     sync.Mutex
	room   int
	epoch  uint64 // how often an entry was dropped: decisions from before that are not learned
	denied map[denialKey]*denial
	ring   []denialKey // in the order of their arrival; keys that are no longer in denied leave a gap
	next   int
}

type denialKey struct{ table, key string }

type denial struct {
	place   int // in the ring
	answers []answer
}

type answer struct {
	plan   *plan
	cost   int64
	result ratelimit.Result
	until  time.Duration // refused as long; counted from the sending, so never for too long
	at     time.Duration // when the result was known
}

func newDenials(keys int) *denials {
	if keys == 0 {
		return nil
	}
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

// A question is a take that the server has to decide.
type question struct {
	shard *denialShard // nil if the answer is not learned
	epoch uint64
	sent  time.Duration
}

// refuse refuses a take that would certainly be refused; otherwise the answer of the server can be
// learned.
func (d *denials) refuse(table, key string, p *plan, op driver.Op) (r ratelimit.Result, refused bool, q question) {
	if d == nil || op.Kind != driver.Take || op.Cost == 0 || op.Cost > p.Capacity {
		return r, false, q
	}
	now, s := time.Since(d.begun), d.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.denied[denialKey{table, key}]; e != nil {
		for i := range e.answers {
			a := &e.answers[i]
			if a.plan != p || a.cost != op.Cost || now >= a.until {
				continue
			}
			r, now = a.result, now-a.at
			r.RetryAfter -= now
			r.FullAfter -= now
			if r.NextAfter -= now; r.NextAfter <= 0 {
				r.NextAfter = r.RetryAfter // some have come back, but not enough
			}
			return r, true, q
		}
	}
	return r, false, question{s, s.epoch, now}
}

// learn remembers a refusal.
func (d *denials) learn(q question, table, key string, p *plan, cost int64, r ratelimit.Result) {
	if q.shard == nil || r.Allowed || r.RetryAfter <= 0 {
		return
	}
	now, s := time.Since(d.begun), q.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != q.epoch {
		return
	}
	e := s.denied[denialKey{table, key}]
	if e == nil {
		e = s.addLocked(denialKey{table, strings.Clone(key)})
	}
	e.put(answer{plan: p, cost: cost, result: r, until: q.sent + min(r.RetryAfter, d.life), at: now})
}

// addLocked makes room for a key, if necessary by evicting the oldest entry.
func (s *denialShard) addLocked(k denialKey) *denial {
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

// put replaces the answer to the same question, or the answer that ends first.
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

// ended drops the entry of a key after an operation that might have made room.
func (d *denials) ended(table, key string, op driver.Op) {
	switch op.Kind {
	case driver.Refund, driver.Reset, driver.Drain:
	case driver.Take, driver.TakeAtMost, driver.Reserve, driver.Check:
		return
	}
	d.forget(table, key)
}

func (d *denials) forget(table, key string) {
	if d == nil {
		return
	}
	s := d.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	delete(s.denied, denialKey{table, key})
}

// keep is a key that forget may be called with later.
func (d *denials) keep(key string) string {
	if d == nil {
		return ""
	}
	return strings.Clone(key)
}
