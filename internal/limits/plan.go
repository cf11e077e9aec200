package limits

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/gresil/gresil/internal/validate"
)

// A Plan is one limit, or several that hold together, made ready to decide. It is not changed after it was made.
type Plan struct {
	Capacity int64 // the least of the Rules
	Rules    []*Rule
	Store    any // what the store keeps with it
}

// Capacity returns the highest cost that can be allowed at once.
func Capacity(s Spec) int64 {
	if s.Algorithm == TokenBucket {
		return s.Burst
	}
	return s.Permits
}

// Plans are the limits of a table. The same limits are the same Plan as long as somebody uses it.
type Plans struct {
	clock   Clock
	prepare func(*Plan) error
	mu      sync.Mutex
	all     map[specs]weak.Pointer[Plan]
	horizon atomic.Int64
}

type specs [MaxLimits]Spec

// NewPlans makes an empty set. If prepare is not nil, it completes a new plan, or refuses it.
func NewPlans(clock Clock, prepare func(*Plan) error) *Plans {
	s := &Plans{clock: clock, prepare: prepare, all: map[specs]weak.Pointer[Plan]{}}
	s.horizon.Store(math.MaxInt64)
	return s
}

// Horizon returns the shortest Horizon of all rules so far.
func (s *Plans) Horizon() int64 { return s.horizon.Load() }

// CostError is the error of a negative cost.
func CostError(n int64) error {
	return validate.Bad("ratelimit cost", n, "must be >= 0 (0 only looks)")
}

// Plan returns the plan of limits that apply together.
func (s *Plans) Plan(specs []Spec) (*Plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plan(specs)
}

func (s *Plans) plan(all []Spec) (*Plan, error) {
	var key specs
	copy(key[:], all)
	if p := s.all[key].Value(); p != nil {
		return p, nil
	}
	p := &Plan{Capacity: math.MaxInt64}
	for _, spec := range all {
		var r *Rule
		if len(all) > 1 {
			alone, err := s.plan([]Spec{spec})
			if err != nil {
				return nil, err
			}
			r = alone.Rules[0]
		} else if r = s.clock.Rule(spec); r == nil {
			return nil, validate.Bad("ratelimit.Limit.Burst", spec.Burst, fmt.Sprintf("is more than can be counted exactly at %d per %v: "+
				"take a smaller burst, or permits that share a factor with the period", spec.Permits, spec.Period))
		} else {
			r.plan = p
			s.horizon.Store(min(s.horizon.Load(), r.Horizon)) // before the first word of this limit
		}
		p.Rules, p.Capacity = append(p.Rules, r), min(p.Capacity, r.Capacity)
	}
	if s.prepare != nil {
		if err := s.prepare(p); err != nil {
			return nil, err
		}
	}
	s.all[key] = weak.Make(p)
	runtime.AddCleanup(p, s.forget, key)
	return p, nil
}

// forget removes a plan that nobody uses.
func (s *Plans) forget(key specs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[key].Value() == nil {
		delete(s.all, key)
	}
}
