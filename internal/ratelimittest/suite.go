package ratelimittest

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// A Harness describes a store to the suite.
type Harness struct {
	// Open returns an empty store. The suite closes it.
	Open func(t *testing.T) ratelimit.Store
	// Unit is the time that the suite plans with: a bucket fills in one, a window
	// lasts one. If zero, a second.
	Unit time.Duration
	// Slack is how late an operation may be, where time is real. Zero means that
	// times are exact.
	Slack time.Duration
	// Bubble runs each case. If nil, it is just called. For virtual time it is
	// synctest.Test.
	Bubble func(t *testing.T, f func(t *testing.T))
}

// Run runs every case as a subtest.
func Run(t *testing.T, h Harness) {
	t.Helper()
	h.Unit = cmp.Or(h.Unit, time.Second)
	if h.Bubble == nil {
		h.Bubble = func(t *testing.T, f func(t *testing.T)) { t.Helper(); f(t) }
	}
	tests := map[string]func(*suite){
		"keys are apart, and any bytes are one": keys, "the same limit has the same plan": samePlan,
		"concurrent takes grant exactly the limit": concurrent,
	}
	for name, steps := range scripts {
		tests[name] = func(s *suite) { s.script(steps) }
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h.Bubble(t, func(t *testing.T) {
				t.Helper()
				s := &suite{T: t, Harness: h, store: h.Open(t)}
				var err error
				s.table, err = s.store.Open("conformance")
				require.NoError(s, err)
				test(s)
				require.NoError(s, s.store.Close())
			})
		})
	}
}

type suite struct {
	*testing.T
	Harness
	store ratelimit.Store
	table limits.Table
}

func (s *suite) planOf(l ratelimit.Limit) *limits.Plan {
	s.Helper()
	id, err := s.table.Plan(limits.Limit(l).Specs())
	require.NoError(s, err)
	return id
}
