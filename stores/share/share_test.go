package share

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
)

// A sharing store has its share in use from the beginning on.
type sharing struct{ *sharer }

func (s sharing) Open(name string) (limits.Table, error) {
	t, err := s.sharer.Open(name)
	if err == nil {
		_ = t.(limits.LocalTable).Local() //nolint:forcetypeassert // it is one
	}
	return t, err
}

func TestAShareConforms(t *testing.T) {
	t.Parallel()
	for name, inner := range map[string]func() ratelimit.Store{
		"memory":  func() ratelimit.Store { return inMemory() },
		"failing": func() ratelimit.Store { return &ratelimittest.Failing{Store: inMemory()} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ratelimittest.Run(t, ratelimittest.Harness{
				Open: func(t *testing.T) ratelimit.Store { t.Helper(); return sharing{newStore(t, inner(), Config{})} }, Bubble: synctest.Test,
			})
		})
	}
}

// bubbles runs a test for a limit of each kind, in virtual time.
func bubbles(t *testing.T, all map[string]ratelimit.Limit, test func(t *testing.T, limit ratelimit.Limit)) {
	t.Helper()
	for name, limit := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, limit) })
		})
	}
}

func down(stores []*group) {
	for _, s := range stores {
		s.Down()
	}
}

func up(stores []*group) {
	for _, s := range stores {
		s.Up()
	}
}

// inStore is what is left in the store of a group.
func inStore(t *testing.T, g *group, limit ratelimit.Limit, key string) int64 {
	t.Helper()
	table, err := g.Store.Open("l")
	require.NoError(t, err)
	id, err := table.Plan(limits.Limit(limit).Specs())
	require.NoError(t, err)
	r, err := table.Apply(t.Context(), key, id, limits.Op{})
	require.NoError(t, err)
	return r.Remaining
}

func TestSharesTogetherAreTheLimit(t *testing.T) {
	t.Parallel()
	for n := 1; n < 4; n++ {
		bubbles(t, kinds(100, time.Hour), func(t *testing.T, limit ratelimit.Limit) {
			t.Helper()
			stores, limiters := newGroup(t, n, limit)
			down(stores)
			sum := int64(0)
			for _, l := range limiters {
				sum += takeAll(t, l, "k")
			}
			require.LessOrEqual(t, sum, int64(100))
			require.GreaterOrEqual(t, sum, int64(99))
		})
	}
}

func TestAFixedNumberOfInstances(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &ratelimittest.Failing{Store: inMemory()}
		s := newStore(t, store, Config{Instances: 4})
		l := newLimiter(t, s, ratelimit.PerHour(100))
		store.Down()
		require.EqualValues(t, 25, takeAll(t, l, "k"))
		require.Equal(t, 4, s.Stats().Instances)
		require.EqualValues(t, 26, s.Stats().Local)
		slow := ratelimittest.Under(t, l, ratelimit.TokenBucket(2, time.Second, 1))
		sum := int64(0)
		for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(10 * time.Millisecond) {
			sum += takeAll(t, slow, "slow")
		}
		require.InDelta(t, 30, sum, 2, "its turns are those of one of four")
	})
}

// TestLimitersOfOneNameHaveOneShare: in one store they are one instance.
func TestLimitersOfOneNameHaveOneShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stores, limiters := newGroup(t, 2, ratelimit.PerHour(100))
		second := newLimiter(t, storeOf(limiters[0]), ratelimit.PerHour(100))
		down(stores)
		require.EqualValues(t, 50, takeAll(t, limiters[0], "k")+takeAll(t, second, "k"))
	})
}

func TestAShareBeginsWithTheKnownUsage(t *testing.T) {
	t.Parallel()
	all := kinds(100, time.Hour)
	all["two"] = ratelimit.FixedWindow(10, 200*time.Millisecond).And(ratelimit.FixedWindow(100, time.Hour))
	all["three"] = ratelimit.TokenBucket(100, time.Second, 10).And(ratelimit.SlidingLog(100, time.Hour)).And(ratelimit.SlidingLog(1000, 24*time.Hour))
	bubbles(t, all, func(t *testing.T, limit ratelimit.Limit) {
		t.Helper()
		ctx := t.Context()
		stores, limiters := newGroup(t, 2, limit)
		for taken := int64(0); taken < 90; {
			r, err := limiters[0].TakeAtMost(ctx, "k", min(10, 90-taken))
			require.NoError(t, err)
			require.NotZero(t, r.Limit)
			if taken += r.Permits; r.Permits == 0 {
				time.Sleep(r.RetryAfter) // the shortest of several
			}
		}
		_, err := limiters[1].Take(ctx, "k", 20)
		require.NoError(t, err)
		_, err = limiters[1].Peek(ctx, "k")
		require.NoError(t, err)
		down(stores)
		sum := int64(0)
		for _, l := range limiters {
			for { // each short window, until the long one refuses
				r, err := l.Take(ctx, "k", 1)
				require.NoError(t, err)
				if sum += r.Permits; r.Allowed {
					continue
				} else if r.RetryAfter > time.Second {
					break
				}
				time.Sleep(r.RetryAfter)
			}
		}
		if len(limits.Limit(limit).Specs()) == 2 || len(limits.Limit(limit).Specs()) == 3 && limits.Limit(limit).Specs()[0].Permits != limits.Limit(limit).Specs()[2].Permits { // the other instance cannot know the long one
			require.LessOrEqual(t, sum, int64(5+50))
		} else {
			require.LessOrEqual(t, sum, int64(10))
		}
		require.GreaterOrEqual(t, sum, int64(7))
	})
}

// TestKnownUsageUnderAnotherLimit: a window of a second would end with this second, whatever the store says of the hour.
func TestKnownUsageUnderAnotherLimit(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]func(l *ratelimit.Limiter, earlier ratelimit.Result) error{
		"peek": func(l *ratelimit.Limiter, _ ratelimit.Result) error { _, err := l.Peek(t.Context(), "k"); return err },
		"refusal": func(l *ratelimit.Limiter, _ ratelimit.Result) error {
			_, err := l.Take(t.Context(), "k", 5)
			return err
		},
		"refund": func(l *ratelimit.Limiter, earlier ratelimit.Result) error { return l.Refund(t.Context(), earlier) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stores, limiters := newGroup(t, 1, ratelimit.PerHour(100))
				short := ratelimittest.Under(t, limiters[0], ratelimit.AlignedWindow(5, time.Second))
				earlier := take(t, short, "k", 1)
				time.Sleep(time.Second)
				require.EqualValues(t, 100, takeAll(t, limiters[0], "k"))
				require.NoError(t, other(short, earlier))
				down(stores)
				require.Zero(t, takeAll(t, limiters[0], "k"))
			})
		})
	}
}

// TestAWindowEndsWithThatOfTheStore: what is known of a window holds to its end, and a
// bucket is repaid.
func TestAWindowEndsWithThatOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const period = 4 * time.Second
		stores, limiters := newGroup(t, 1, ratelimit.FixedWindow(100, period))
		bucket := ratelimittest.Under(t, limiters[0], ratelimit.TokenBucket(100, period, 100))
		require.EqualValues(t, 100, takeAll(t, limiters[0], "k"))
		require.EqualValues(t, 100, take(t, bucket, "b", 100).Permits)
		time.Sleep(time.Second)
		down(stores)
		require.Equal(t, period-time.Second, take(t, limiters[0], "k", 1).RetryAfter)
		r := take(t, bucket, "b", 0)
		require.EqualValues(t, 25, r.Remaining)
		require.Equal(t, period-time.Second, r.FullAfter)
		time.Sleep(period - time.Second)
		require.EqualValues(t, 100, takeAll(t, limiters[0], "k"))
	})
}

func TestUsageIsChargedToTheStore(t *testing.T) {
	t.Parallel()
	all := kinds(100, time.Hour)
	all["two"] = ratelimit.FixedWindow(100, time.Hour).And(ratelimit.FixedWindow(200, time.Hour*24))
	bubbles(t, all, func(t *testing.T, limit ratelimit.Limit) {
		t.Helper()
		stores, limiters := newGroup(t, 2, limit)
		down(stores)
		for _, l := range limiters {
			for _, key := range []string{"a", "b"} {
				r := take(t, l, key, 30)
				require.True(t, r.Allowed)
				require.EqualValues(t, 50, r.Limit, "the share")
			}
		}
		time.Sleep(10 * time.Second)
		require.Positive(t, storeOf(limiters[0]).owing.Load())
		up(stores)
		time.Sleep(chargeEvery)
		synctest.Wait()
		for _, key := range []string{"a", "b"} {
			require.InDelta(t, 40, inStore(t, stores[0], limit, key), 1)
		}
		synctest.Wait()
		for _, l := range limiters {
			require.Zero(t, storeOf(l).owing.Load())
			require.False(t, storeOf(l).charging.Load(), "nothing runs any more")
		}
	})
}

// TestUsageOfALongLimitIsCharged: also what has recovered under shorter ones, which are then full for one period more.
func TestUsageOfALongLimitIsCharged(t *testing.T) {
	t.Parallel()
	second, minute, day := ratelimit.FixedWindow(10, time.Second), ratelimit.FixedWindow(400, time.Minute), ratelimit.FixedWindow(1000, 24*time.Hour)
	bubbles(t, map[string]ratelimit.Limit{
		"two": second.And(day), "long first": day.And(second), "three": minute.And(day).And(second),
		"four": second.And(day).And(minute).And(ratelimit.TokenBucket(20, time.Second, 400)),
	}, func(t *testing.T, limit ratelimit.Limit) {
		t.Helper()
		stores, limiters := newGroup(t, 1, limit)
		down(stores)
		sum := int64(0)
		for range 50 {
			sum += takeAll(t, limiters[0], "k")
			time.Sleep(time.Second)
		}
		require.GreaterOrEqual(t, sum, int64(400))
		time.Sleep(hold + hold/2) // after a failure nothing is sent, and here, between two ticks, nothing fails
		up(stores)
		require.False(t, take(t, limiters[0], "k", 1).Allowed, "the second is full")
		for i, all := range limits.Limit(limit).Specs() {
			one := ratelimit.Limit(limits.Of(all))
			require.Equal(t, max(0, limits.Capacity(all)-sum), inStore(t, stores[0], one, "k"), "%d", i)
		}
	})
}

// TestADebtIsChargedBeforeTheNextDecision: without the goroutine too.
func TestADebtIsChargedBeforeTheNextDecision(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := ratelimit.PerHour(100)
		stores, limiters := newGroup(t, 1, limit)
		down(stores)
		require.True(t, take(t, limiters[0], "k", 30).Allowed)
		require.True(t, take(t, limiters[0], "other", 30).Allowed)
		up(stores)
		r := take(t, limiters[0], "k", 71)
		require.False(t, r.Allowed)
		require.EqualValues(t, 100, r.Limit)
		require.EqualValues(t, 70, inStore(t, stores[0], limit, "k"))
		synctest.Wait()
		require.EqualValues(t, 70, inStore(t, stores[0], limit, "other"), "soon after the first decision")
	})
}

// indebted has granted 60 of 100 permits of "k" during an outage, which is over.
func indebted(t *testing.T) (s *sharer, left func() int64) {
	t.Helper()
	limit := ratelimit.PerHour(100)
	stores, limiters := newGroup(t, 1, limit)
	down(stores)
	take(t, limiters[0], "k", 60)
	up(stores)
	return storeOf(limiters[0]), func() int64 { return inStore(t, stores[0], limit, "k") }
}

// TestDebtsAreChargedByClose: a process that ends takes its debts along only if the store is unavailable.
func TestDebtsAreChargedByClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, left := indebted(t)
		require.NoError(t, s.Close())
		require.EqualValues(t, 40, left())
		_, err := s.Open("l")
		require.ErrorIs(t, err, core.ErrClosed)
		plan, err := localOf(s).Plan(limits.Limit(ratelimit.PerHour(100)).Specs())
		require.NoError(t, err)
		_, err = localOf(s).Apply(t.Context(), "k", plan, limits.Op{Cost: 1})
		require.ErrorIs(t, err, core.ErrClosed)
	})
}

// TestDebtOfACallDuringClose: a call that would charge it first, and finds the store closed, leaves it to Close.
func TestDebtOfACallDuringClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, left := indebted(t)
		s.stop()
		_, err := localOf(s).depart(t.Context(), "k", 1)
		require.ErrorIs(t, err, core.ErrClosed)
		s.charge(t.Context())
		require.EqualValues(t, 40, left())
	})
}

// TestAStoreThatComesAndGoes: no flap is worth a new budget.
func TestAStoreThatComesAndGoes(t *testing.T) {
	t.Parallel()
	bubbles(t, kinds(100, time.Hour), func(t *testing.T, limit ratelimit.Limit) {
		t.Helper()
		stores, limiters := newGroup(t, 2, limit)
		sum := int64(0)
		for flap := range 3 {
			down(stores)
			for _, l := range limiters {
				r, err := l.TakeAtMost(t.Context(), "k", 20)
				require.NoError(t, err)
				sum += r.Permits
			}
			up(stores)
			if flap == 1 {
				continue // before a decision has found that it is back
			}
			for _, l := range limiters {
				require.EqualValues(t, 100, take(t, l, "k", 0).Limit, "not a share")
			}
		}
		for _, l := range limiters {
			sum += takeAll(t, l, "k")
		}
		require.LessOrEqual(t, sum, int64(100))
		require.Greater(t, sum, int64(80))
	})
}

// TestAStoreThatIsUnavailableForOne: the limit and the share of the one that is cut off, and that
// once, however often it is.
func TestAStoreThatIsUnavailableForOne(t *testing.T) {
	t.Parallel()
	bubbles(t, kinds(100, time.Hour), func(t *testing.T, limit ratelimit.Limit) {
		t.Helper()
		stores, limiters := newGroup(t, 2, limit)
		sum := int64(0)
		for range 3 {
			stores[1].Down()
			sum += takeAll(t, limiters[1], "k") + takeAll(t, limiters[0], "k")
			stores[1].Up()
			time.Sleep(chargeEvery)
			sum += takeAll(t, limiters[1], "k") + takeAll(t, limiters[0], "k")
		}
		require.LessOrEqual(t, sum, int64(150))
	})
}

func TestNothingIsSentForASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reached := 0
		unavailable := limits.Unsent(errors.New("unavailable"), true)
		store := &scripted{Store: inMemory(), before: func(string) error { reached++; return unavailable }}
		l := newLimiter(t, newStore(t, store, Config{}), ratelimit.PerHour(100))
		begun := time.Now()
		take(t, l, "k", 0)
		require.Equal(t, 1, reached)
		for time.Since(begun) < hold {
			take(t, l, "k", 0)
			require.Equal(t, 1, reached)
			time.Sleep(hold / 10)
		}
		take(t, l, "k", 0)
		take(t, l, "another", 0)
		require.Equal(t, 3, reached)
		require.EqualValues(t, 10, storeOf(l).Stats().Unsent, "those of k that were held back")

		store.fail(func(string) error { reached++; return errors.New("fails") }, nil)
		for reached = 0; reached < failures; {
			take(t, l, "failing", 0)
		}
		take(t, l, "failing", 0)
		require.Equal(t, failures, reached, "several failures in a row")
	})
}

// A scripted store fails before or after a decision.
type scripted struct {
	ratelimit.Store
	mu            sync.Mutex
	before, after func(key string) error
}

// fail has the operations that follow fail before and after their decision.
func (s *scripted) fail(before, after func(key string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

type scriptedTable struct {
	limits.Table
	store *scripted
}

func (s *scripted) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return scriptedTable{t, s}, err
}

func (t scriptedTable) Apply(ctx context.Context, key string, id *limits.Plan, op limits.Op) (limits.Result, error) {
	t.store.mu.Lock()
	before, after := t.store.before, t.store.after
	t.store.mu.Unlock()
	if before != nil {
		if err := before(key); err != nil {
			return limits.Result{}, err
		}
	}
	r, err := t.Table.Apply(ctx, key, id, op)
	if after != nil && err == nil {
		err = after(key)
	}
	return r, err
}

// TestTakesWithoutAReplyAreChargedToTheShare: the store granted them, and they were under way when the
// first of them failed.
func TestTakesWithoutAReplyAreChargedToTheShare(t *testing.T) {
	t.Parallel()
	bubbles(t, kinds(100, time.Hour), func(t *testing.T, limit ratelimit.Limit) {
		t.Helper()
		const calls = 60
		release := make(chan error)
		store := &scripted{Store: inMemory()}
		l := newLimiter(t, newStore(t, store, Config{}), limit)
		require.EqualValues(t, 60, take(t, l, "k", 40).Remaining)
		store.fail(nil, func(string) error { return <-release })
		results := make(chan ratelimit.Result, calls)
		for range calls {
			go func() {
				r, err := l.Take(context.Background(), "k", 1)
				if err != nil {
					t.Error(err)
				}
				results <- r
			}()
		}
		synctest.Wait() // all are granted at the store, and no reply has come
		store.fail(func(string) error { return ratelimittest.ErrDown }, nil)
		granted := int64(40)
		for i := range calls {
			var err error
			if i%3 == 0 {
				err = errors.New("the reply is lost")
			}
			release <- err
			synctest.Wait()
			granted += (<-results).Permits
		}
		require.EqualValues(t, 80, granted, "a third was lost")
		granted += takeAll(t, l, "k")
		require.LessOrEqual(t, granted, int64(100))
	})
}

// A take that certainly was not granted costs nothing, and one that might have been costs once.
func TestAFailedTakeIsChargedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var failure error
		store := &scripted{Store: inMemory(), before: func(string) error { return failure }}
		l := newLimiter(t, newStore(t, store, Config{}), ratelimit.PerHour(100))
		failure = ratelimittest.ErrDown
		require.EqualValues(t, 90, take(t, l, "unsent", 10).Remaining)
		failure = errors.New("no reply")
		require.EqualValues(t, 80, take(t, l, "lost", 10).Remaining, "once by the store, perhaps, and once here")
		failure = ratelimittest.ErrDown
		require.EqualValues(t, 80, take(t, l, "lost", 0).Remaining)
		require.EqualValues(t, 70, take(t, l, "lost", 10).Remaining)
	})
}

// TestACostAboveTheShareIsNotRefusedForGood: the store grants it when it is back.
func TestACostAboveTheShareIsNotRefusedForGood(t *testing.T) {
	t.Parallel()
	all := kinds(100, time.Hour)
	all["shaper"] = ratelimit.TokenBucket(2, time.Second, 3)
	bubbles(t, all, func(t *testing.T, limit ratelimit.Limit) {
		t.Helper()
		stores, limiters := newGroup(t, 4, limit)
		l, all := limiters[0], ratelimittest.Capacity(limit)
		down(stores)
		for _, kind := range []limits.OpKind{limits.Take, limits.Reserve, limits.Check} {
			id, err := localOf(storeOf(l)).Plan(limits.Limit(limit).Specs())
			require.NoError(t, err)
			for cost, never := range map[int64]bool{all/4 + 1: false, all: false, all + 1: true} {
				r, err := localOf(storeOf(l)).Apply(t.Context(), "k", id, limits.Op{Kind: kind, Cost: cost})
				require.NoError(t, err)
				require.False(t, r.Allowed, "%d", cost)
				if never {
					require.Equal(t, limits.Never, r.RetryAfter, "more than the whole limit")
				} else {
					require.Positive(t, r.RetryAfter)
				}
			}
		}
		r := take(t, l, "k", all)
		up(stores)
		time.Sleep(r.RetryAfter)
		require.True(t, take(t, l, "k", all).Allowed)
	})
}

func TestAShareWaitsRefundsAndForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		stores, limiters := newGroup(t, 2, ratelimit.TokenBucket(10, time.Second, 10))
		l, limit := limiters[0], ratelimit.PerHour(10)
		hourly := ratelimittest.Under(t, l, limit)
		remote := take(t, hourly, "store", 4)
		down(stores)
		require.ErrorIs(t, hourly.Refund(ctx, remote), ratelimit.ErrStore, "it is not a take of the share")

		r := take(t, hourly, "store", 3)
		require.True(t, r.Allowed)
		require.Zero(t, r.Remaining)
		require.NoError(t, hourly.Refund(ctx, r))
		require.EqualValues(t, 3, take(t, hourly, "store", 0).Remaining)

		// A wait is one for the share: 5 a second.
		r, err := l.Drain(ctx, "w")
		require.NoError(t, err)
		require.EqualValues(t, 5, r.Permits)
		r, err = l.Reserve(ctx, "w", 1, time.Second)
		require.NoError(t, err)
		require.Equal(t, 200*time.Millisecond, r.Wait)
		require.NoError(t, l.Refund(ctx, r))
		start := time.Now()
		_, err = l.Wait(ctx, "w", 1)
		require.NoError(t, err)
		require.Equal(t, 200*time.Millisecond, time.Since(start))

		// A refund leaves nothing to be charged.
		r = take(t, hourly, "k", 3)
		require.EqualValues(t, 2, r.Remaining)
		require.NoError(t, hourly.Refund(ctx, r))
		require.EqualValues(t, 5, take(t, hourly, "k", 0).Remaining)
		kept := take(t, hourly, "kept", 3)
		require.NoError(t, hourly.Reset(ctx, "k"))
		require.True(t, take(t, hourly, "forgotten", 4).Allowed)
		require.NoError(t, hourly.Reset(ctx, "forgotten"))
		require.EqualValues(t, 5, take(t, hourly, "forgotten", 0).Remaining)

		up(stores)
		time.Sleep(chargeEvery)
		synctest.Wait()
		require.Zero(t, storeOf(l).owing.Load())
		for key, want := range map[string]int64{"k": 10, "store": 6, "kept": 7, "forgotten": 10} {
			require.Equal(t, want, inStore(t, stores[0], limit, key), key)
		}
		require.NoError(t, hourly.Refund(ctx, kept), "it is no take of the store")
		require.EqualValues(t, 7, inStore(t, stores[0], limit, "kept"), "what was charged stays")
	})
}

// TestAShareBoundsItsKeys: more keys than fit are decided too, and charged as far as they are known.
func TestAShareBoundsItsKeys(t *testing.T) {
	t.Parallel()
	checkBounds(t, 1<<12)
}

// checkBounds sets the number of keys that a share remembers; 0 is the default.
func checkBounds(t *testing.T, most int) {
	t.Helper()
	s := newStore(t, &ratelimittest.Failing{Store: inMemory()}, Config{})
	table, err := s.Open("l")
	require.NoError(t, err)
	id, err := table.Plan(limits.Limit(ratelimit.PerHour(2)).Specs())
	require.NoError(t, err)
	l := table.(limits.LocalTable).Local().(*local) //nolint:forcetypeassert // it is ours
	require.Same(t, l, table.(limits.LocalTable).Local(), "twice")
	s.charging.Store(true) // nothing charges
	require.Equal(t, maxKeys, l.most*len(l.shards))
	if most = cmp.Or(most, maxKeys); most < maxKeys {
		l.most = most / len(l.shards)
	}
	keys := most + most/4
	for i := range keys {
		r, err := l.Apply(t.Context(), fmt.Sprint(i), id, limits.Op{Cost: 1})
		require.NoError(t, err)
		require.True(t, r.Allowed)
	}
	known := 0
	for i := range l.shards {
		known += len(l.shards[i].keys)
	}
	require.LessOrEqual(t, known, most)
	require.Greater(t, known, most*3/4)
	require.EqualValues(t, known, s.owing.Load())
	for _, allowed := range []bool{true, false} {
		r, err := l.Apply(t.Context(), "0", id, limits.Op{Cost: 1})
		require.NoError(t, err)
		require.Equal(t, allowed, r.Allowed, "memory knows it still")
	}
}

// TestAChargeThatFails holds back no other, is not retried with each decision, and charges no other twice.
func TestAChargeThatFails(t *testing.T) {
	t.Parallel()
	bubbles(t, kinds(100, time.Hour), func(t *testing.T, limit ratelimit.Limit) {
		t.Helper()
		bad := "bad"
		var reached atomic.Int64
		memory := inMemory()
		store := &scripted{Store: memory, before: func(string) error { return ratelimittest.ErrDown }}
		l := newLimiter(t, newStore(t, store, Config{}), limit)
		for i := range 100 {
			take(t, l, fmt.Sprint(i), 10)
		}
		take(t, l, bad, 10)
		store.fail(func(key string) error {
			if reached.Add(1); key == bad {
				return errors.New("it cannot be read")
			}
			return nil
		}, nil)
		for range 200 {
			take(t, l, "good", 0)
		}
		synctest.Wait()
		require.LessOrEqual(t, reached.Load(), int64(200+10*101))
		owed := 10 * int64(len(limits.Limit(limit).Specs()))
		require.Equal(t, owed, storeOf(l).owing.Load())
		time.Sleep(3 * chargeEvery)
		require.Equal(t, owed, storeOf(l).owing.Load())
		for i := range 100 {
			require.InDelta(t, 90, inStore(t, &group{Failing: &ratelimittest.Failing{Store: memory}}, limit, fmt.Sprint(i)), 0.5)
		}
	})
}

// TestRefundsWithoutAReply: the limiter ends them, so they are failures of the store.
func TestRefundsWithoutAReply(t *testing.T) {
	t.Parallel()
	bubbles(t, kinds(100, time.Hour), func(t *testing.T, limit ratelimit.Limit) {
		t.Helper()
		slow := &ratelimittest.Failing{Store: inMemory()}
		l := newLimiter(t, newStore(t, slow, Config{}), limit)
		var taken [failures]ratelimit.Result
		for i := range taken {
			taken[i] = take(t, l, "k", 1)
		}
		slow.Delay(time.Minute)
		for _, r := range taken {
			require.Error(t, l.Refund(t.Context(), r))
		}
		slow.Delay(0)
		require.Negative(t, take(t, l, "k", 1).Receipt.At, "nothing is sent")
	})
}

// TestAChargeIsNotWaitedForTooLong: a caller waits no longer than its context lasts.
func TestAChargeIsNotWaitedForTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &ratelimittest.Failing{Store: inMemory()}
		l := newLimiter(t, newStore(t, store, Config{}), ratelimit.PerHour(100))
		store.Down()
		require.True(t, take(t, l, "k", 1).Allowed)
		store.Up()
		store.Delay(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		begun := time.Now()
		_, err := l.Take(ctx, "k", 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 50*time.Millisecond, time.Since(begun))
		require.EqualValues(t, 98, take(t, l, "k", 1).Remaining)
		require.Equal(t, chargeTime, time.Since(begun), "the charge that was under way")
	})
}

// TestChargesDuringAnOutage: however many keys owe, few are tried each time. Those of a server that is back are charged, and all afterwards.
func TestChargesDuringAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reached atomic.Int64
		store := &scripted{Store: inMemory(), before: func(string) error {
			reached.Add(1)
			return ratelimittest.ErrDown
		}}
		l := newLimiter(t, newStore(t, store, Config{}), ratelimit.PerHour(100))
		const down, up = 4 * 16 * outage, 30
		for i := range down + up {
			take(t, l, map[bool]string{true: "down", false: "up"}[i < down]+fmt.Sprint(i), 1)
		}
		reached.Store(0)
		time.Sleep(3 * chargeEvery)
		synctest.Wait()
		require.LessOrEqual(t, reached.Load(), int64(3*16*(outage+chargers)))
		store.fail(func(key string) error { // one server is back
			if strings.HasPrefix(key, "down") {
				return ratelimittest.ErrDown
			}
			return nil
		}, nil)
		time.Sleep(60 * chargeEvery)
		synctest.Wait()
		require.EqualValues(t, down, storeOf(l).owing.Load())
		store.fail(nil, nil)
		time.Sleep(chargeEvery)
		synctest.Wait()
		require.Zero(t, storeOf(l).owing.Load())
	})
}

// Of replies that overtake each other, the state that was decided last counts.
func TestRepliesThatOvertakeEachOther(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		at   int64
		sent time.Duration
		left int64
		want int64
	}{
		"later":                    {101, -1, 7, 7},
		"earlier":                  {99, -1, 7, 5},
		"earlier and less left":    {99, -1, 3, 5},
		"at once":                  {100, -1, 7, 5},
		"at once and less left":    {100, -1, 3, 3},
		"on one tick of the clock": {99, 0, 7, 5},
		"the clock was set back":   {99, 1, 7, 7},
	} {
		a := &account{left: 10}
		a.learn(100, limits.Result{Remaining: 5, FullAfter: time.Minute}, now, now)
		require.EqualValues(t, 5, a.left)
		a.told = 1
		a.learn(c.at, limits.Result{Remaining: c.left, FullAfter: time.Hour}, now.Add(c.sent), now)
		require.Equal(t, c.want, a.left, name)
		require.Equal(t, c.want == 5, a.told == 1, name)
	}
}

// A take whose reply is lost is charged to the share once, before or after that.
func TestALostTakeIsChargedOnce(t *testing.T) {
	t.Parallel()
	k := &known{flying: 3, covered: 2}
	k.landed(1, true)
	require.EqualValues(t, 1, k.unknown)
	k.landed(2, true)
	require.Equal(t, []int64{1, 0, 0}, []int64{k.unknown, k.flying, k.covered}, "two were charged when they were under way")
	k.learn(&plan{}, &limits.Result{}, k.lostAt)
	require.EqualValues(t, 1, k.unknown, "the reply to what was sent before says nothing of it")
	k.learn(&plan{}, &limits.Result{}, k.lostAt.Add(1))
	require.Zero(t, k.unknown)
}

// denying refuses without asking the store, as a deny cache does, while it is set.
type denying struct {
	ratelimit.Store
	set atomic.Bool
}

type denyingTable struct {
	limits.Table
	of *denying
}

func (d *denying) Open(name string) (limits.Table, error) {
	t, err := d.Store.Open(name)
	return denyingTable{t, d}, err
}

func (t denyingTable) Apply(ctx context.Context, key string, p *limits.Plan, op limits.Op) (limits.Result, error) {
	if t.of.set.Load() {
		return limits.Result{Limit: 100, Remaining: 100, RetryAfter: time.Second, Receipt: limits.Receipt{At: -1, Plan: p}}, nil
	}
	return t.Table.Apply(ctx, key, p, op)
}

// What was decided without the store says nothing of the permits that are left there.
func TestADenialIsNoStateOfTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scripted := &scripted{Store: inMemory()}
		cache := &denying{Store: scripted}
		l := newLimiter(t, newStore(t, cache, Config{}), ratelimit.PerHour(100))
		take(t, l, "k", 90)
		time.Sleep(time.Second)
		cache.set.Store(true)
		require.False(t, take(t, l, "k", 1).Allowed)
		cache.set.Store(false)
		scripted.fail(func(string) error { return ratelimittest.ErrDown }, nil)
		require.EqualValues(t, 10, takeAll(t, l, "k"))
	})
}

func TestConfigOfAShare(t *testing.T) {
	t.Parallel()
	_, err := New(inMemory(), Config{Instances: -1})
	require.ErrorContains(t, err, "share.Config.Instances = -1: must be >= 0 (0 means 1)")
	for _, missing := range []ratelimit.Store{nil, (*sharer)(nil)} {
		_, err = New(missing, Config{})
		require.EqualError(t, err, "share store = <nil>: must not be nil")
	}
	registry := &core.Registry{}
	cfg := Config{Registry: registry, Name: "redis"}
	s := newStore(t, inMemory(), cfg)
	got, _ := core.Lookup[*sharer](registry, "redis")
	require.Same(t, s, got)
	_, err = New(inMemory(), cfg)
	require.ErrorContains(t, err, "already registered")
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, ok := core.Lookup[*sharer](registry, "redis")
	require.False(t, ok)
}
