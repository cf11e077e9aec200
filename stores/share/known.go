package share

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// A shard has some of the keys.
type shard struct {
	mu   sync.Mutex
	keys map[string]*known
}

// A known is the state of a key as known in this process.
type known struct {
	plan   *plan // of the last take here
	parts  []*account
	charge *charge // that is under way

	flying  int64     // permits of takes at the store whose reply has not come
	covered int64     // those of flying that are charged to the share
	unknown int64     // permits of takes without a reply that are not charged to the share
	lostAt  time.Time // when the last of these was given up

	failures int       // of the store, in a row
	held     time.Time // nothing is sent until then
	err      error     // of the last failure
}

// An account is the state of a key under one limit.
type account struct {
	part *plan
	at   int64     // the time of the store at its last decision
	seen time.Time // when that was known
	left int64     // permits that were left at that time
	full time.Time // when the key will be full
	told int64     // the number of instances for which memory was charged, or 0
	debt int64     // permits granted here that are not charged to the store
	took int64     // the time in memory of the last take here
	sent int64     // took when the debt was charged last: takes up to then are not part of the debt any more
}

// know returns the state of a key, and creates it. If the shard is full, it evicts one of a few
// other keys with its debt: the one that recovers first or, if all have debts or takes under way, any of them.
func (l *local) know(s *shard, key string) *known {
	if k := s.keys[key]; k != nil {
		return k
	}
	if len(s.keys) >= l.most {
		seen, victim, least := 0, "", time.Time{}
		for name, k := range s.keys {
			if end := k.end(); victim == "" || end.Before(least) {
				victim, least = name, end
			}
			if seen++; seen == 8 {
				break
			}
		}
		for _, a := range s.keys[victim].parts {
			l.owe(a, -a.debt)
		}
		delete(s.keys, victim)
	}
	k := &known{}
	s.keys[strings.Clone(key)] = k
	return k
}

// end returns the time at which a key has recovered at the store; if it has a debt or a take under
// way, the time after that.
func (k *known) end() (end time.Time) {
	if end = k.held; k.owes() || k.flying > 0 {
		return time.Now().Add(limits.MaxPeriod)
	}
	for _, a := range k.parts {
		if a.full.After(end) {
			end = a.full
		}
	}
	return end
}

// idle reports whether nothing is known of a key.
func (k *known) idle() bool {
	now := time.Now()
	busy := func(a *account) bool { return a.full.After(now) || a.debt > 0 }
	return !slices.ContainsFunc(k.parts, busy) && k.flying == 0 && k.unknown == 0 && k.charge == nil && k.failures == 0 && !k.held.After(now)
}

// account is the account under one limit.
func (k *known) account(p *plan) *account {
	if i := slices.IndexFunc(k.parts, func(a *account) bool { return a.part == p }); i >= 0 {
		return k.parts[i]
	}
	a := &account{part: p, left: p.capacity, sent: -1}
	k.parts = append(k.parts, a)
	return a
}

// prune drops the limits of a key that are not in force any more: the store counts their usage under those in force. Their
// debts are added to these.
func (l *local) prune(k *known, p *plan) {
	if k.charge != nil {
		return
	}
	debt := int64(0)
	k.plan, k.parts = p, slices.DeleteFunc(k.parts, func(a *account) bool {
		if slices.Contains(p.parts, a.part) {
			return false
		}
		debt = max(debt, a.debt) // joined limits have counted the same takes
		l.owe(a, -a.debt)
		return true
	})
	for _, part := range p.parts {
		if debt > 0 {
			l.owe(k.account(part), debt)
		}
	}
}

func (k *known) owes() bool {
	return slices.ContainsFunc(k.parts, func(a *account) bool { return a.debt > 0 })
}

// landed ends a take of so many permits that was under way. If its reply was lost, the permits might
// have been taken.
func (k *known) landed(cost int64, lost bool) {
	k.flying -= cost
	over := max(0, k.covered-k.flying)
	k.covered -= over
	if lost && cost > 0 {
		k.unknown, k.lostAt = k.unknown+cost-over, time.Now()
	}
}

// failed remembers a failure of the store. After several in a row, or if the store says so, nothing
// is sent for some time: otherwise an unstable store would be tried and given up again and again.
func (k *known) failed(err error) {
	k.failures++
	unavailable, _ := limits.IsUnsent(err)
	if k.err = err; k.failures >= failures || unavailable {
		k.failures, k.held = 0, time.Now().Add(hold)
	}
}

// learn remembers the state of a key after an operation that was sent at a time.
func (k *known) learn(p *plan, r *limits.Result, sent time.Time) {
	if sent.After(k.lostAt) {
		k.unknown = 0
	}
	now := time.Now()
	for i, part := range p.parts {
		st := *r
		switch more := r.Receipt.More; {
		case more != nil && len(more.Stands) == len(p.parts):
			st = more.Stands[i]
		case i != r.Which:
			k.account(part).subtract(r, sent, now)
			continue
		}
		if len(k.parts) > 0 || st.FullAfter > 0 {
			k.account(part).learn(r.Receipt.At, st, sent, now)
		}
	}
}

// learn stores the state of a decision. Replies can overtake each other: of operations that were
// under way together, the one that was decided last counts, and of two that were decided at one
// moment, or at unknown times, the one with less left.
func (a *account) learn(at int64, st limits.Result, sent, now time.Time) {
	if !sent.After(a.seen) && (at < a.at || at == a.at && st.Remaining >= a.left) {
		return
	}
	a.at, a.seen, a.left, a.full, a.told = at, now, st.Remaining, now.Add(st.FullAfter), 0
}

// subtract counts a take of joined limits, of which the store has reported another one, unless a
// decision that includes the take is known. It keeps the time of the last report: each take counts,
// whatever the order of the replies.
func (a *account) subtract(r *limits.Result, sent, now time.Time) {
	if r.Permits == 0 || !sent.After(a.seen) && r.Receipt.At < a.at {
		return
	}
	limit, left, full := a.part.limit, a.part.capacity, now
	if a.full.After(now) {
		left, full = a.left, a.full
	}
	switch {
	case limit.Algorithm == limits.TokenBucket:
		full = full.Add(mulDiv(r.Permits, int64(limit.Period), limit.Permits))
	case limit.Algorithm != limits.FixedWindow || full.Equal(now):
		full = now.Add(recovery(limit))
	}
	a.left, a.full, a.told = max(0, left-r.Permits, r.Remaining), full, 0
}
