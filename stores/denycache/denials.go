package denycache

import (
	"container/list"
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
	begun time.Time // all times are durations since then
	life  time.Duration
	most  int // entries
	seed  maphash.Seed

	mu     sync.Mutex
	denied map[denialKey]*denial
	order  list.List   // of the entries, the oldest first
	drops  [256]uint64 // of entries, by the hash of the key: no decision from before a drop is learned
}

type denialKey struct{ table, key string }

type denial struct {
	denialKey

	place   *list.Element // in order
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
	return &denials{begun: time.Now(), life: longestDenial, most: keys, seed: maphash.MakeSeed(), denied: map[denialKey]*denial{}}
}

// dropsOf returns the counter of drops that a key shares with others.
func (d *denials) dropsOf(key string) *uint64 {
	return &d.drops[maphash.String(d.seed, key)%uint64(len(d.drops))]
}

// A question is a take that the store has to decide.
type question struct {
	drops *uint64 // nil if the answer is not learned
	seen  uint64  // the value of drops
	sent  time.Duration
}

// refuse refuses a take like one that the store has just refused. Otherwise learn can note the answer of the store to q.
func (d *denials) refuse(table, key string, plan *limits.Plan, op limits.Op) (r limits.Result, refused bool, q question) {
	if op.Kind != limits.Take || op.Cost <= 0 {
		return r, false, q
	}
	now, drops := time.Since(d.begun), d.dropsOf(key)
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.denied[denialKey{table, key}]; e != nil {
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
	return r, false, question{drops, *drops, now}
}

// learn notes a refusal.
func (d *denials) learn(q question, table, key string, plan *limits.Plan, cost int64, r limits.Result) {
	if q.drops == nil || r.Allowed || r.RetryAfter <= 0 {
		return
	}
	now := time.Since(d.begun)
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.denied[denialKey{table, key}]
	if *q.drops != q.seen || e != nil && now < e.quiet {
		return
	}
	if e == nil {
		e = d.addLocked(table, key)
	}
	r.Receipt = limits.Receipt{At: -1, Plan: plan} // -1: decided without the store
	e.put(answer{plan: plan, cost: cost, result: r, until: q.sent + min(r.RetryAfter, d.life), at: now})
}

// addLocked adds an entry for a key, and evicts the oldest entry if there is no room.
func (d *denials) addLocked(table, key string) *denial {
	if d.order.Len() >= d.most {
		d.dropLocked(d.order.Front().Value.(*denial)) //nolint:forcetypeassert // nothing else is in it
	}
	e := &denial{denialKey: denialKey{table, strings.Clone(key)}}
	e.place, d.denied[e.denialKey] = d.order.PushBack(e), e
	return e
}

func (d *denials) dropLocked(e *denial) {
	d.order.Remove(e.place)
	delete(d.denied, e.denialKey)
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
	drops := d.dropsOf(key)
	d.mu.Lock()
	defer d.mu.Unlock()
	*drops++
	if e := d.denied[denialKey{table, key}]; e != nil {
		d.dropLocked(e)
	}
	if quiet > 0 {
		d.addLocked(table, key).quiet = time.Since(d.begun) + quiet
	}
}
