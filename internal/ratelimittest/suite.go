package ratelimittest

import (
	"context"
	"testing"
	"time"

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
	if h.Unit == 0 {
		h.Unit = time.Second
	}
	if h.Bubble == nil {
		h.Bubble = func(t *testing.T, f func(t *testing.T)) { t.Helper(); f(t) }
	}
	cases := []testCase{
		{"several limits are taken all or none", several},
		{"a check takes nothing", check},
		{"a refusal changes nothing", refusal},
		{"each decision has its time", times},
		{"more than the capacity is never allowed", never},
		{"a cost of zero only looks", peek},
		{"at most takes what there is", atMost},
		{"a refund gives back a take", refund},
		{"a refund after its window gives nothing", lateRefund},
		{"a refund reports the limit in force", refundUnderAnother},
		{"reset forgets", reset},
		{"keys are apart", keys},
		{"any bytes are a key", strangeKeys},
		{"usage counts under any limit", plans},
		{"a lower limit waits for the one before, and forgets nothing", overdrawn},
		{"the same limit has the same plan", samePlan},
		{"a negative cost is an error", nonsense},
		{"reservations come in order and in time", reservations},
		{"a reservation too far ahead is refused", tooFar},
		{"concurrent takes grant exactly the limit", concurrent},
		{"a closed store fails", closed},
		{"a changed limit grants nothing and is felt at once", changed},
		{"a limit under which nothing was granted leaves no trace", changedBack},
		{"permits reserved ahead stay so when the limit changes", changedFar},
		{"a chain of limits refills nothing", changedChain},
		{"a key limit carries over", changedKey},
		{"tiers in turn admit what both admit", changedTiers},
		{"a changed limit leaves keys of tiers alone", changedOther},
		{"joined limits go on from those of their kind", changedJoined},
		{"waiters are served in order, and in time", waitsInOrder},
		{"a canceled wait takes nothing", canceledWait},
		{"a queue has a bound", boundedQueue},
		{"a queue serves as soon as there are permits", queueServesAtOnce},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h.Bubble(t, func(t *testing.T) {
				t.Helper()
				store := h.Open(t)
				table, err := store.Open("conformance")
				if err != nil {
					t.Fatal(err)
				}
				c.test(&suite{T: t, Harness: h, store: store, table: table})
				if err := store.Close(); err != nil {
					t.Errorf("Close() = %v", err)
				}
			})
		})
	}
}

type testCase struct {
	name string
	test func(*suite)
}

type suite struct {
	*testing.T
	Harness
	store ratelimit.Store
	table limits.Table
}

// fatalIf ends the case if something is wrong.
func (s *suite) fatalIf(wrong bool, text string, args ...any) {
	s.Helper()
	if wrong {
		s.Fatalf(text, args...)
	}
}

func (s *suite) ok(err error) {
	s.Helper()
	s.fatalIf(err != nil, "%v", err)
}

func (s *suite) plan(l ratelimit.Limit) *limits.Plan {
	s.Helper()
	id, err := s.table.Plan(limits.Limit(l).Specs())
	s.fatalIf(err != nil, "Plan(%v): %v", l, err)
	return id
}

func (s *suite) apply(key string, id *limits.Plan, op limits.Op) limits.Result {
	s.Helper()
	r, err := s.table.Apply(context.Background(), key, id, op)
	s.fatalIf(err != nil, "Apply(%q, %+v): %v", key, op, err)
	return r
}

func (s *suite) take(key string, id *limits.Plan, cost int64) limits.Result {
	s.Helper()
	return s.apply(key, id, limits.Op{Kind: limits.Take, Cost: cost})
}

// granted checks a grant and the permits that remain.
func (s *suite) granted(r limits.Result, granted, remaining int64) {
	s.Helper()
	s.fatalIf(!r.Allowed || r.Permits != granted || r.Remaining != remaining, "got %+v, want %d granted and %d remaining", r, granted,
		remaining)
}

// refused checks a refusal of a key with nothing left, and its wait.
func (s *suite) refused(r limits.Result, retryAfter time.Duration) {
	s.Helper()
	s.fatalIf(r.Allowed || r.Permits != 0 || r.Remaining != 0, "got %+v, want a refusal with nothing remaining", r)
	s.near("RetryAfter", r.RetryAfter, retryAfter)
}

// near checks a wait, which may be shorter by what passed since.
func (s *suite) near(what string, got, want time.Duration) {
	s.Helper()
	s.fatalIf(got > want || got < want-s.Slack, "%s = %v, want %v (less at most %v)", what, got, want, s.Slack)
}
