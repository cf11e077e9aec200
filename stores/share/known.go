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

// A known is the state of a key, as far as this process knows it.
type known struct {
	plan   *plan // the plan of the last take here
	parts  []*account
	charge *charge // the charge under way, or nil

	flying  int64     // permits of takes at the store whose reply has not arrived
	covered int64     // the part of flying that is charged to the share
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
	told int64     // the number of instances for whose share the memory was charged, or 0
	debt int64     // permits granted here that are not charged to the store
	took int64     // the time in memory of the last take here
	sent int64     // the value of took when the debt was last charged: earlier takes are no longer part of the debt
}

// know returns the state of a key, and creates it if there is none. If the shard is full, it evicts one of a few other
// keys with its debt: the one that recovers first or, if all have debts or takes under way, any of them.
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

// end returns the time at which a key will have recovered at the store. For a key with a debt or a take under way, it
// returns a time far in the future.
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

// idle reports whether nothing about a key need be kept.
func (k *known) idle() bool {
	now := time.Now()
	busy := func(a *account) bool { return a.full.After(now) || a.debt > 0 }
	return !slices.ContainsFunc(k.parts, busy) && k.flying == 0 && k.unknown == 0 && k.charge == nil && k.failures == 0 && !k.held.After(now)
}

// account returns the account under one limit.
func (k *known) account(p *plan) *account {
	if i := slices.IndexFunc(k.parts, func(a *account) bool { return a.part == p }); i >= 0 {
		return k.parts[i]
	}
	a := &account{part: p, left: p.capacity, sent: -1}
	k.parts = append(k.parts, a)
	return a
}

// prune drops the accounts of limits that are no longer in force: the store counts their usage under those in force, to
// which their debts are added.
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

// landed ends a take of cost permits that was under way. If its reply was lost, the permits might have been taken.
func (k *known) landed(cost int64, lost bool) {
	k.flying -= cost
	over := max(0, k.covered-k.flying)
	k.covered -= over
	if lost && cost > 0 {
		k.unknown, k.lostAt = k.unknown+cost-over, time.Now()
	}
}

// failed notes a failure of the store. After several in a row, or if the error says that the store is unavailable,
// nothing is sent for some time: otherwise an unstable store would be tried and given up again and again.
func (k *known) failed(err error) {
	k.failures++
	unavailable, _ := limits.IsUnsent(err)
	if k.err = err; k.failures >= failures || unavailable {
		k.failures, k.held = 0, time.Now().Add(hold)
	}
}

// learn notes the state of a key after an operation that was sent at a given time.
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

// learn notes the state after a decision. Replies can overtake each other: of operations that were under way together,
// the one that was decided last counts. Of two that were decided at the same moment, or at unknown times, the one with
// fewer permits left counts.
func (a *account) learn(at int64, st limits.Result, sent, now time.Time) {
	if !sent.After(a.seen) && (at < a.at || at == a.at && st.Remaining >= a.left) {
		return
	}
	a.at, a.seen, a.left, a.full, a.told = at, now, st.Remaining, now.Add(st.FullAfter), 0
}

// subtract counts a take under joined limits for a limit on which the store has not reported, unless a decision that
// includes the take is known. It does not change the time of the last report: each take counts, whatever the order of
// the replies.
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
