package limits

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// A record is an account outside of the process. Each count has its limit, so that any process can
// read it.
type record struct {
	At     int64 // when it was written
	Counts []recordCount
}

type recordCount struct {
	Limit            Spec
	State            State
	Replaced, Joined bool
	Short            bool `json:",omitzero"`
}

var errValue = errors.New("ratelimit: the value of a key cannot be read: it is of no limit")

// reads reports whether a state can be that of a key as of the time at which it was written.
func (r *Rule) reads(s State, at int64) bool {
	switch r.Spec.Algorithm {
	case TokenBucket:
		return s.List == nil && s.Moved <= uint64(r.bucket.most/4)
	case FixedWindow:
		_, used := unpack(s.Word, at)
		return s.List == nil && s.Word>>55 == r.window.pack(0, 0)>>55 && used <= reserveAhead*r.Capacity
	case SlidingCounter:
		return len(s.List) == 0 || len(s.List) >= counterHead && readsCounter(s.List, at)
	case SlidingWindow, SlidingLog:
		return len(s.List) == 0 || len(s.List) >= segmentsHead && readsSegments(s.List)
	}
	return false
}

func readsCounter(s []int64, at int64) bool {
	start, before, used, ahead := s[0], s[1], s[2], s[counterHead:]
	_, ok := sumOf(ahead)
	last := at
	for i := 0; ok && i < len(ahead); i += 2 {
		ok = i == 0 || ahead[i] > ahead[i-2]
		last = max(last, ahead[i])
	}
	return ok && isTime(start) && isCost(before) && isCost(used) && (start <= last || before == 0 && used == 0)
}

func readsSegments(s []int64) bool {
	first, n := s[0], int64(len(s))
	if first < segmentsHead || first > n || first%2 != 0 {
		return false
	}
	_, ok := sumOf(s[segmentsHead:])
	sum, live := sumOf(s[first:])
	return ok && live && sum == s[1]
}

// sumOf returns the sum of the costs in a list of times and costs, and whether it is such a list.
func sumOf(s []int64) (sum int64, ok bool) {
	if len(s)%2 != 0 {
		return 0, false
	}
	for i := 0; i < len(s); i += 2 {
		if !isTime(s[i]) || !isCost(s[i+1]) {
			return 0, false
		}
		sum += s[i+1]
	}
	return sum, true
}

func isCost(n int64) bool { return n >= 0 && n <= reserveAhead*MaxPermits }

// isTime reports whether some periods can be added to a time, and subtracted from it.
func isTime(t int64) bool {
	const far = 10 * int64(MaxPeriod)
	return t >= -far && t <= math.MaxInt64-far
}

// Encode returns the account in bytes, which [Plans.Decode] reads.
func (a *Account) Encode(now int64) []byte {
	a.Touch(now) // the operation at that time need not have written all words
	r := record{At: now}
	for _, c := range a.Counts() {
		r.Counts = append(r.Counts, recordCount{c.Rule.Spec, c.State, c.Replaced, c.Joined, c.Short})
	}
	bytes, _ := json.Marshal(r) // numbers and bools cannot fail
	return bytes
}

// Decode reads an account, and the time at which it was written: see [Account.Expire].
func (s *Plans) Decode(bytes []byte) (a Account, at int64, err error) {
	var r record
	if err := json.Unmarshal(bytes, &r); err != nil {
		return a, 0, fmt.Errorf("ratelimit: the value of a key cannot be read: %w", err)
	}
	if !isTime(r.At) {
		return a, 0, errValue
	}
	for _, c := range r.Counts[:min(len(r.Counts), maxCounts)] {
		p, err := s.add([]Spec{c.Limit})
		if err != nil {
			return Account{}, 0, err
		}
		rule := p.Rules[0]
		if a.find(rule.ID) != nil || !rule.reads(c.State, r.At) {
			return Account{}, 0, errValue
		}
		if rule.owesTooMuch(c.State, r.At) {
			c.State = rule.alg.fresh(r.At)
		}
		a.Add(Count{Rule: rule, State: c.State, Replaced: c.Replaced, Joined: c.Joined, Short: c.Short})
	}
	return a, r.At, nil
}
