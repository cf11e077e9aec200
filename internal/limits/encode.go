package limits

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gresil/gresil/core/ratelimit/driver"
)

// A record is an account outside of the process. Each count has its limit, so that any process can
// read it.
type record struct {
	At     int64 // when it was written
	Counts []recordCount
}

type recordCount struct {
	Limit            driver.Spec
	State            State
	Replaced, Joined bool
}

var errList = errors.New("ratelimit: the value of a key cannot be read: its list is of no limit")

// reads reports whether a list can be the state of a key.
func (r *Rule) reads(list []int64) bool {
	n := int64(len(list))
	switch r.Spec.Algorithm {
	case driver.SlidingWindow, driver.SlidingLog:
		return n == 0 || n >= segmentsHead && n%2 == 0 && list[0] >= segmentsHead && list[0] <= n && list[0]%2 == 0
	case driver.SlidingCounter:
		return n == 0 || n >= counterHead && n%2 == counterHead%2
	case driver.FixedWindow, driver.TokenBucket:
	}
	return n == 0
}

// Encode returns the account in bytes, which [Plans.Decode] reads.
func (a *Account) Encode(now int64) []byte {
	r := record{At: now}
	for _, c := range a.Counts() {
		r.Counts = append(r.Counts, recordCount{c.Rule.Spec, c.State, c.Replaced, c.Joined})
	}
	bytes, _ := json.Marshal(r) // numbers and bools cannot fail
	return bytes
}

// Decode reads an account that was written at a time, without the counts whose words are too old.
func (s *Plans) Decode(bytes []byte, now int64) (a Account, at int64, err error) {
	var r record
	if err := json.Unmarshal(bytes, &r); err != nil {
		return a, 0, fmt.Errorf("ratelimit: the value of a key cannot be read: %w", err)
	}
	for _, c := range r.Counts[:min(len(r.Counts), maxCounts)] {
		p, err := s.add([]driver.Spec{c.Limit})
		if err != nil {
			return Account{}, 0, err
		}
		rule := p.Rules[0]
		if !rule.reads(c.State.List) {
			return Account{}, 0, errList
		}
		if rule.Listed() || (now-r.At)/5 <= rule.Horizon {
			a.Add(Count{Rule: rule, State: c.State, Replaced: c.Replaced, Joined: c.Joined})
		}
	}
	return a, r.At, nil
}
