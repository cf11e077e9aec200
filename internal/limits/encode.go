package limits

import (
	"encoding/json"
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
		if rule := p.Rules[0]; rule.Listed() || (now-r.At)/5 <= rule.Horizon {
			a.Add(Count{Rule: rule, State: c.State, Replaced: c.Replaced, Joined: c.Joined})
		}
	}
	return a, r.At, nil
}
