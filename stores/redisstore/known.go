package redisstore

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
)

// A localShard has some of the keys.
type localShard struct {
	mu   sync.Mutex
	keys map[string]*known
}

// A known is the state of a key as known in this process.
type known struct {
	plan    *plan // of the last take here
	parts   []*account
	pushing chan struct{} // closed when a push is over; nil if there is none
}

// An account is the state of a key under one limit.
type account struct {
	part *part
	at   int64     // the time of the server at its last decision, in µs
	left int64     // permits that were left at that time
	full time.Time // when the key will be full
	told int64     // the number of instances for which memory was charged, or 0
	debt int64     // permits granted here that are not charged to the server
}

func (l *local) shard(key string) *localShard {
	return &l.shards[maphash.String(l.seed, key)%localShards]
}

// know returns the state of a key, and creates it. If the shard is full, it evicts one of a few
// other keys: one without a debt, or with the debt that recovers first.
func (l *local) know(s *localShard, key string) *known {
	if k := s.keys[key]; k != nil {
		return k
	}
	if len(s.keys) >= localKeys/localShards {
		seen, victim, least := 0, "", time.Time{}
		for name, k := range s.keys {
			if end := k.end(); victim == "" || end.Before(least) {
				victim, least = name, end
			}
			if seen++; seen == 8 {
				break
			}
		}
		l.drop(s, victim)
	}
	k := &known{}
	s.keys[strings.Clone(key)] = k
	return k
}

// drop forgets a key and its debt.
func (l *local) drop(s *localShard, key string) {
	if k := s.keys[key]; k != nil {
		for _, a := range k.parts {
			l.charge(a, -a.debt)
		}
		delete(s.keys, key)
	}
}

// end returns the time at which a key has recovered at the server; if it has a debt, the time
// after that charge.
func (k *known) end() (end time.Time) {
	for _, a := range k.parts {
		full := a.full
		if a.debt > 0 {
			full = time.Now().Add(ratelimit.MaxPeriod)
		}
		if full.After(end) {
			end = full
		}
	}
	return end
}

// account is the account under one limit.
func (k *known) account(part *part) *account {
	for _, a := range k.parts {
		if a.part == part {
			return a
		}
	}
	a := &account{part: part, left: part.Capacity}
	k.parts = append(k.parts, a)
	return a
}

// learn stores the state of a decision at a time of the server. Replies can overtake each other: a state
// that is older than the last one is dropped, and of two states of one moment the one with less left
// stays. A state that is older by more than late is not an overtaken one: the server's clock was set back.
func (a *account) learn(at int64, st stand, now time.Time, late time.Duration) {
	if older := a.at - at; older >= 0 && older < late.Microseconds() && (older > 0 || st.left >= a.left) {
		return
	}
	a.at, a.left, a.full, a.told = at, st.left, now.Add(st.full), 0
}

func (k *known) owes() bool {
	for _, a := range k.parts {
		if a.debt > 0 {
			return true
		}
	}
	return false
}
