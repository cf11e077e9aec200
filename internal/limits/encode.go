package limits

import (
	"encoding/json"
	"errors"
	"fmt"
)

// A record is an account outside of the process. Each value has its limit, so that any process can
// read it.
type record struct {
	Version int
	At      int64 // when it was written
	Values  []recordValue
}

type recordValue struct {
	Limit Spec
	State State
}

const recordVersion = 1

var errValue = errors.New("ratelimit: the value of a key cannot be read")

// reads reports whether a state has the form that the algorithm needs.
func (r *Rule) reads(s State) bool {
	n := len(s.List)
	switch r.Spec.Algorithm {
	case TokenBucket, FixedWindow:
		return n == 0
	case SlidingCounter:
		return n == 0 || n >= counterHead && n%2 == 1
	case SlidingWindow, SlidingLog:
		return n == 0 || n%2 == 0 && s.List[0] >= segmentsHead && s.List[0] <= int64(n) && s.List[0]%2 == 0
	}
	return false
}

// Encode returns the account in bytes, which [Plans.Decode] reads.
func (a *Account) Encode(now int64) []byte {
	a.Touch(now) // the operation at that time need not have written all words
	r := record{Version: recordVersion, At: now}
	for _, v := range a.Values() {
		r.Values = append(r.Values, recordValue{v.Rule.Spec, v.State})
	}
	bytes, _ := json.Marshal(r) // numbers cannot fail
	return bytes
}

// Decode reads an account, and the time at which it was written: see [Account.Expire].
func (s *Plans) Decode(bytes []byte) (a Account, at int64, err error) {
	var r record
	if err := json.Unmarshal(bytes, &r); err != nil {
		return a, 0, fmt.Errorf("%w: %w", errValue, err)
	}
	if r.Version != recordVersion || len(r.Values) > MaxLimits {
		return a, 0, errValue
	}
	for _, v := range r.Values {
		p, err := s.Plan([]Spec{v.Limit})
		if err != nil || !p.Rules[0].reads(v.State) {
			return Account{}, 0, errValue
		}
		a.Add(Value{p.Rules[0], v.State})
	}
	return a, r.At, nil
}
