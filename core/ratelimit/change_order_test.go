package ratelimit_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

// An orderedTable records the changes of which it learned, in the order in which its calls ended. The
// first call ends after a second change was made, if that does not wait for it.
type orderedTable struct {
	limits.Table

	calls   atomic.Int32
	first   chan struct{} // closed in the first call
	changed chan struct{} // closed when the second change was made
	plans   []limits.ID
}

func (s *orderedTable) Open(name string) (limits.Table, error) {
	m, err := ratelimit.NewMemory(0)
	if err != nil {
		return nil, err
	}
	s.Table, err = m.Open(name)
	return s, err
}

func (*orderedTable) Close() error { return nil }

func (s *orderedTable) Changed(c *limits.Change) {
	if s.calls.Add(1) == 1 {
		close(s.first)
		for range 10_000 {
			select {
			case <-s.changed:
			default:
				runtime.Gosched()
			}
		}
	}
	s.plans = append(s.plans, c.Plan)
}

func (s *orderedTable) ChangedKey(_ string, _, c *limits.Change) { s.Changed(c) }

func TestATableLearnsOfChangesInTheirOrder(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*ratelimit.Limiter, ratelimit.Limit) error{
		"SetLimit":    (*ratelimit.Limiter).SetLimit,
		"SetKeyLimit": func(l *ratelimit.Limiter, limit ratelimit.Limit) error { return l.SetKeyLimit("k", limit) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &orderedTable{first: make(chan struct{}), changed: make(chan struct{})}
			l, err := ratelimit.New(ratelimit.Config{Name: "ordered", Store: s})
			require.NoError(t, err)
			done := make(chan error)
			go func() { done <- set(l, ratelimit.PerHour(1)) }()
			<-s.first
			go func() {
				done <- set(l, ratelimit.PerHour(2))
				close(s.changed)
			}()
			require.NoError(t, <-done)
			require.NoError(t, <-done)
			r, err := l.Peek(t.Context(), "k")
			require.NoError(t, err)
			require.EqualValues(t, 2, r.Limit)
			require.Equal(t, r.Plan, s.plans[len(s.plans)-1], "the last change is that of the limit in force")
		})
	}
}

func TestClearingAKeyLimitThatIsNotSetDoesNothing(t *testing.T) {
	t.Parallel()
	s := &orderedTable{first: make(chan struct{}), changed: make(chan struct{})}
	l, err := ratelimit.New(ratelimit.Config{Name: "ordered", Store: s})
	require.NoError(t, err)
	_ = l.SetKeyLimit("k", ratelimit.Limit{})
	require.Empty(t, s.plans)
}
