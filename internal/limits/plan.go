package limits

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gresil/gresil/core"
)

// A Plan is one limit, or several that hold together, made ready to decide.
type Plan struct {
	ID       ID
	Capacity int64 // the least of the Rules
	Rules    []*Rule
}

// Exact reports whether takes must never be closer together than the limits allow, also if a
// waiter wakes up late.
func (p *Plan) Exact() bool {
	return slices.ContainsFunc(p.Rules, func(r *Rule) bool { return r.Listed() })
}

// Pairs reports whether a limit can replace another as a part of several limits: whether they
// have everything in common except the number of permits.
func Pairs(a, b Spec) bool {
	a.Permits, a.Burst, b.Permits, b.Burst = 0, 0, 0, 0
	return a == b
}

// Capacity returns the highest cost that can be allowed at once.
func Capacity(s Spec) int64 {
	if s.Algorithm == TokenBucket {
		return s.Burst
	}
	return s.Permits
}

// Plans are the limits of a table, by their numbers.
type Plans struct {
	clock   Clock
	mu      sync.Mutex
	all     atomic.Pointer[[]*Plan] // without the number 0
	bySpecs map[[MaxLimits]Spec]*Plan
	horizon atomic.Int64
}

// NewPlans makes an empty set.
func NewPlans(clock Clock) *Plans {
	s := &Plans{clock: clock, bySpecs: map[[MaxLimits]Spec]*Plan{}}
	s.all.Store(&[]*Plan{nil})
	s.horizon.Store(math.MaxInt64)
	return s
}

// All returns the plans by their numbers; there is none of the number 0.
func (s *Plans) All() []*Plan { return *s.all.Load() }

// For returns the plan of that number, for an operation of that cost.
func (s *Plans) For(id ID, cost int64) (*Plan, error) {
	switch all := s.All(); {
	case cost < 0:
		return nil, CostError(cost)
	case id == 0 || int(id) >= len(all):
		return nil, fmt.Errorf("ratelimit: no plan %d in this table", id)
	default:
		return all[id], nil
	}
}

// CostError is the error of a negative cost.
func CostError(n int64) error {
	return &core.ConfigError{Field: "ratelimit cost", Value: n, Reason: "must be >= 0 (0 only looks)"}
}

// Horizon returns the shortest Horizon of all rules.
func (s *Plans) Horizon() int64 { return s.horizon.Load() }

var errPlans = errors.New("ratelimit: a table knows at most 65535 different limits")

// Plan registers limits that apply together. The same limits are the same plan.
func (s *Plans) Plan(specs []Spec) (ID, error) {
	p, err := s.add(specs)
	if err != nil {
		return 0, err
	}
	return p.ID, nil
}

func (s *Plans) add(specs []Spec) (*Plan, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var key [MaxLimits]Spec
	p := &Plan{Capacity: math.MaxInt64}
	for i, spec := range specs {
		r, err := s.rule(spec)
		if err != nil {
			return nil, err
		}
		key[i], p.Rules, p.Capacity = spec, append(p.Rules, r), min(p.Capacity, r.Capacity)
	}
	return s.put(key, p)
}

// rule registers one limit.
func (s *Plans) rule(spec Spec) (*Rule, error) {
	key := [MaxLimits]Spec{spec}
	if p := s.bySpecs[key]; p != nil {
		return p.Rules[0], nil
	}
	r := s.clock.Rule(spec)
	if r == nil {
		return nil, fmt.Errorf("ratelimit: %d permits per %v cannot be counted exactly", spec.Permits, spec.Period)
	}
	s.horizon.Store(min(s.horizon.Load(), r.Horizon)) // before the first word of this limit
	_, err := s.put(key, &Plan{Capacity: r.Capacity, Rules: []*Rule{r}})
	return r, err
}

func (s *Plans) put(key [MaxLimits]Spec, p *Plan) (*Plan, error) {
	if old := s.bySpecs[key]; old != nil {
		return old, nil
	}
	old := s.All()
	if len(old) > math.MaxUint16 {
		return nil, errPlans
	}
	if p.ID = ID(len(old)); len(p.Rules) == 1 {
		p.Rules[0].ID = p.ID
	}
	all := append(old, p) // a reader of the old slice does not look beyond its end
	s.all.Store(&all)
	s.bySpecs[key] = p
	return p, nil
}
