package ratelimit_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/blame/blametest"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/limits/memory"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/registry"
)

func openMemory(*testing.T) ratelimit.Store { return &ratelimittest.Memory{} }

// slowed returns a store that takes a time for each operation.
func slowed(s ratelimit.Store, delay time.Duration) *ratelimittest.Failing {
	slow := &ratelimittest.Failing{Store: s}
	slow.Delay(delay)
	return slow
}

func TestStoresConform(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]ratelimittest.Harness{
		"memory": {Open: openMemory},
		"values": {Open: func(*testing.T) ratelimit.Store { return ratelimit.NewStore(newRows()) }},
		"slow": {Unit: time.Minute, Slack: time.Second, Open: func(t *testing.T) ratelimit.Store {
			t.Helper()
			return slowed(openMemory(t), time.Millisecond)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h.Bubble = synctest.Test
			ratelimittest.Run(t, h)
		})
	}
}

// Take, TakeAtMost, Wait and Reserve go by OnStoreError while a store fails, and are no refusals; what must have an effect fails.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &ratelimittest.Failing{Store: openMemory(t)}
		var failures int
		cfg := ratelimit.Config{Store: store, Limit: ratelimit.PerHour(1), Registry: onEvents(func(e registry.Event) {
			if e.Warn {
				failures++
				require.ErrorIs(t, e.Err(), ratelimittest.ErrDown)
			}
		})}
		allow := newLimiter(t, cfg)
		cfg.Name, cfg.OnStoreError = "deny", ratelimit.Deny
		deny := newLimiter(t, cfg)
		store.Down()
		takes := func(l *ratelimit.Limiter, check func(r ratelimit.Result, err error)) {
			check(l.Take(t.Context(), "k", 1))
			check(l.TakeAtMost(t.Context(), "k", 1))
			check(l.Wait(t.Context(), "k", 1))
			check(l.Reserve(t.Context(), "k", 1, time.Second))
			require.EqualValues(t, 4, l.Stats().StoreErrors)
			require.Zero(t, l.Stats().Allowed, "it was not the limit that allowed")
		}
		takes(allow, func(r ratelimit.Result, err error) {
			require.NoError(t, err)
			require.Equal(t, ratelimit.Result{Allowed: true}, r)
		})
		takes(deny, func(r ratelimit.Result, err error) {
			require.ErrorIs(t, err, ratelimit.ErrStore)
			require.ErrorIs(t, err, ratelimittest.ErrDown)
			require.NotErrorIs(t, err, core.ErrRejected)
			require.EqualError(t, err, "ratelimit: deny: store failed: down")
			require.Zero(t, r)
		})
		require.Equal(t, 8, failures)
		store.Up()
		require.True(t, take(t, allow, "k", 1).Allowed)
		require.False(t, take(t, allow, "k", 1).Allowed)

		store.Down()
		_, err := allow.Take(t.Context(), "k", -1)
		require.ErrorIs(t, err, core.ErrConfig)
		never := take(t, allow, "k", 2)
		never.Receipt = limits.Receipt{}
		require.Equal(t, ratelimit.Result{Limit: 1, RetryAfter: limits.Never}, never, "what never fits needs no store")
		for name, op := range map[string]func(n int64) (ratelimit.Result, error){
			"Take":       func(n int64) (ratelimit.Result, error) { return allow.Take(t.Context(), "k", n) },
			"TakeAtMost": func(n int64) (ratelimit.Result, error) { return allow.TakeAtMost(t.Context(), "k", n) },
			"Wait":       func(n int64) (ratelimit.Result, error) { return allow.Wait(t.Context(), "k", n) },
			"Reserve":    func(n int64) (ratelimit.Result, error) { return allow.Reserve(t.Context(), "k", n, 0) },
		} {
			for n := range int64(2) {
				r, err := op(n)
				require.NoError(t, err, "%s of %d", name, n)
				require.Equal(t, ratelimit.Result{Allowed: true}, r, "%s of %d", name, n)
			}
		}
		for name, op := range map[string]func() error{
			"Reset":  func() error { return allow.Reset(t.Context(), "k") },
			"Drain":  func() error { _, err := allow.Drain(t.Context(), "k"); return err },
			"Peek":   func() error { _, err := allow.Peek(t.Context(), "k"); return err },
			"Refund": func() error { return allow.Refund(t.Context(), ratelimit.Result{Permits: 1}) },
		} {
			require.ErrorIs(t, op(), ratelimit.ErrStore, "%s did nothing", name)
		}
	})
}

// rows are values of which each first update is overtaken by another one.
type rows struct {
	mu    sync.Mutex
	byKey map[string]string
	keep  time.Duration // of the last update
}

func (r *rows) Update(_ context.Context, key string, f func(time.Time, []byte) ([]byte, time.Duration)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(time.Now(), []byte("overtaken"))
	var old []byte
	if value, ok := r.byKey[key]; ok {
		old = []byte(value)
	}
	next, keep := f(time.Now(), old)
	switch r.keep = keep; {
	case next == nil:
	case keep == 0:
		delete(r.byKey, key)
	default:
		r.byKey[key] = string(next)
	}
	return nil
}

func newRows() *rows { return &rows{byKey: map[string]string{}} }

// on is a limiter of one more process.
func (r *rows) on(tb testing.TB, name string, limit ratelimit.Limit) *ratelimit.Limiter {
	tb.Helper()
	return newLimiter(tb, ratelimit.Config{Name: name, Store: ratelimit.NewStore(r), Limit: limit, OnStoreError: ratelimit.Deny})
}

// Two processes share values; the second one knows nothing of the limits of the first.
func TestValuesOfTwoProcesses(t *testing.T) {
	t.Parallel()
	joined := ratelimit.SlidingCounter(10, time.Hour).And(ratelimit.AlignedWindow(30, time.Hour))
	for _, limit := range append(ratelimit.Every(10, time.Hour), joined) {
		synctest.Test(t, func(t *testing.T) {
			values := newRows()
			require.EqualValues(t, 6, take(t, values.on(t, "api", limit), "k", 4).Remaining)
			require.EqualValues(t, 1, take(t, values.on(t, "api", limit), "k", 5).Remaining, limit)
			require.EqualValues(t, 3, mustPeek(t, values.on(t, "api", ratelimit.FixedWindow(12, 2*time.Hour)), "k").Remaining)
			take(t, values.on(t, "api", limit), "x:k", 4)
			require.EqualValues(t, 10, mustPeek(t, values.on(t, "api:x", limit), "k").Remaining)
		})
	}
}

// Limiters of one name in one Store refund each other's takes. A closed Store, and one of nothing, is an error of New.
func TestValuesOfOneStore(t *testing.T) {
	t.Parallel()
	cfg := ratelimit.Config{Name: "api", Store: ratelimit.NewStore(newRows()), OnStoreError: ratelimit.Deny}
	a, b := newLimiter(t, cfg), newLimiter(t, cfg)
	taken := take(t, a, "k", 4)
	require.NoError(t, b.Refund(t.Context(), taken))
	require.Equal(t, taken.Limit, mustPeek(t, a, "k").Remaining)
	require.NoError(t, cfg.Store.Close())
	_, err := ratelimit.New(cfg)
	require.ErrorIs(t, err, core.ErrClosed)
	for _, missing := range []ratelimit.Values{nil, (*rows)(nil)} {
		cfg.Store = ratelimit.NewStore(missing)
		_, err = ratelimit.New(cfg)
		require.ErrorContains(t, err, "ratelimit values = <nil>: must not be nil")
	}
}

func TestValuesKeepTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		values := newRows()
		l := values.on(t, "api", ratelimit.TokenBucket(1, time.Minute, 10))
		first := take(t, l, "k", 3)
		require.Equal(t, 3*time.Minute, values.keep)
		before := values.byKey["3:api:k"]
		require.NotEmpty(t, before)
		require.False(t, take(t, l, "k", 8).Allowed)
		require.Equal(t, before, values.byKey["3:api:k"])
		require.NoError(t, l.Refund(t.Context(), first))
		require.Empty(t, values.byKey)
	})
}

// A value that is not deleted when it could be means nothing, however old it is.
func TestValuesAreOld(t *testing.T) {
	t.Parallel()
	for _, limit := range ratelimit.Every(10, time.Hour) {
		synctest.Test(t, func(t *testing.T) {
			values := newRows()
			l := values.on(t, "api", limit)
			for age := 2 * time.Hour; age < 10_000*time.Hour; age += age/4 + 13*time.Minute {
				require.True(t, take(t, l, "k", 10).Allowed, "%v: after %v", limit, age)
				time.Sleep(age)
			}
		})
	}
}

// A value that cannot be read is an error of the store, until it is gone.
func TestValuesUnreadable(t *testing.T) {
	t.Parallel()
	values, key := newRows(), "6:broken:k"
	l := values.on(t, "broken", ratelimit.Limit{})
	value := func(version, limit, state string) string {
		return fmt.Sprintf(`{"Version":%s,"At":1,"Values":[{"Limit":%s,"State":%s}]}`, version, limit, state)
	}
	limit := func(algorithm int, more string) string {
		return fmt.Sprintf(`{"Algorithm":%d,"Permits":1,"Period":1%s}`, algorithm, more)
	}
	fixed, bucket, window, counter, log := limit(0, ""), limit(1, `,"Burst":1`), limit(2, `,"Segments":2`), limit(3, ""), limit(4, "")
	window = strings.Replace(window, `"Period":1`, `"Period":2`, 1)
	broken := []string{"5", "{", value("2", fixed, "{}"), value("1", limit(9, ""), "{}"), value("1", limit(2, ""), "{}")}
	broken = append(broken, `{"Version":1,"Values":[`+strings.Repeat(`{"Limit":`+fixed+`},`, 4)+`{"Limit":`+fixed+`}]}`)
	for limit, c := range map[string]struct{ readable, not []string }{
		fixed:   {[]string{"null"}, []string{"[1]"}},
		bucket:  {[]string{"null"}, []string{"[1]"}},
		window:  {[]string{"null", "[2,1]"}, []string{"[1]", "[2,1,1]", "[3,1,1,1]", "[0,1]", "[4,1]"}},
		log:     {[]string{"null", "[2,1]"}, []string{"[1]", "[2,1,1]", "[3,1,1,1]", "[-2,1]", "[6,1,1,1]"}},
		counter: {[]string{"null", "[1,1,1]"}, []string{"[1]", "[1,1]", "[1,1,1,1]"}},
	} {
		for _, list := range c.readable {
			values.byKey[key] = value("1", limit, `{"List":`+list+`}`)
			_, err := l.Take(t.Context(), "k", 1)
			require.NoError(t, err, values.byKey[key])
		}
		for _, list := range c.not {
			broken = append(broken, value("1", limit, `{"List":`+list+`}`))
		}
	}
	for _, value := range broken {
		values.byKey[key] = value
		_, err := l.Take(t.Context(), "k", 1)
		require.ErrorIs(t, err, ratelimit.ErrStore, value)
	}
	delete(values.byKey, key)
	require.True(t, take(t, l, "k", 1).Allowed)
}

// A connectionStore reads from a connection that has the deadline of the call.
type connectionStore struct{}

func (s connectionStore) Open(string) (limits.Table, error) { return s, nil }

func (connectionStore) Close() error { return nil }

func (connectionStore) Plan(l []limits.Spec) (*limits.Plan, error) {
	return limits.NewPlans(limits.Clock{}, nil).Plan(l)
}

func (connectionStore) Apply(context.Context, string, *limits.Plan, limits.Op) (limits.Result, error) {
	return limits.Result{}, fmt.Errorf("store: %w", os.ErrDeadlineExceeded)
}

// A deadline of the caller is no failure of the store, also if a connection reaches it first: OnStoreError does not allow the call.
func TestDeadlineIsNoStoreFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ratelimit.Config{Store: connectionStore{}, Limit: ratelimit.PerHour(1)})
		r, err := l.Take(blametest.Late(t.Context()), "k", 1)
		require.ErrorIs(t, err, blametest.ErrLate)
		require.False(t, r.Allowed)
		require.Zero(t, l.Stats().StoreErrors)
		require.True(t, take(t, l, "k", 1).Allowed)
		require.EqualValues(t, 1, l.Stats().StoreErrors, "a timeout of the store's own")

		slow := newLimiter(t, ratelimit.Config{Store: slowed(openMemory(t), time.Minute)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = slow.Take(ctx, "k", 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, slow.Stats().StoreErrors)
	})
}

// A store that has recovered is announced once for each outage; neither what can come from a cache nor an operation that began before
// the failure says so.
func TestStoreRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := slowed(openMemory(t), ms)
		var recovered []string
		l := newLimiter(t, ratelimit.Config{Store: store, Limit: ratelimit.PerMinute(5), Registry: onEvents(func(e registry.Event) {
			if e.Outage && !e.Warn {
				recovered = append(recovered, e.Key)
			}
		})})
		fail := func() {
			store.Down()
			take(t, l, "k", 1)
			take(t, l, "k", 1)
			store.Up()
		}
		take(t, l, "k", 1)
		require.Empty(t, recovered, "there was no failure")
		for range 2 {
			fail()
			recovered = nil
			take(t, l, "k", 9)
			require.Empty(t, recovered, "a refusal can come from a cache")
			var late sync.WaitGroup
			late.Go(func() { take(t, l, "k", 1) })
			synctest.Wait()
			fail()
			late.Wait()
			require.Empty(t, recovered, "it began before the second failure")
			take(t, l, "k", 1)
			take(t, l, "k", 0)
			require.Equal(t, []string{"k"}, recovered)
		}
		require.EqualValues(t, 8, l.Stats().StoreErrors)
	})
}

// A sharing store has tables that can decide without it: half of each limit of one algorithm.
type sharing struct{ *ratelimittest.Failing }

type sharingTable struct {
	limits.Table
	share sharedTable
}

type sharedTable struct {
	limits.Table
	halves map[*limits.Plan]*limits.Plan
}

func (s sharing) Open(name string) (limits.Table, error) {
	table, err := s.Failing.Open(name)
	if err != nil {
		return nil, err
	}
	return &sharingTable{table, sharedTable{memory.New(0), map[*limits.Plan]*limits.Plan{}}}, nil
}

func (t *sharingTable) Plan(limits []limits.Spec) (*limits.Plan, error) {
	half := slices.Clone(limits)
	half[0].Permits /= 2
	plan, err := t.Table.Plan(limits)
	if err == nil {
		t.share.halves[plan], err = t.share.Plan(half)
	}
	return plan, err
}

func (t *sharingTable) Local() limits.Table { return t.share }

func (t sharedTable) Apply(ctx context.Context, key string, plan *limits.Plan, op limits.Op) (limits.Result, error) {
	if op.Kind == limits.Refund {
		return limits.Result{}, ratelimittest.ErrDown
	}
	return t.Table.Apply(ctx, key, t.halves[plan], op)
}

func TestLocalDecidesWhileTheStoreCannot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := sharing{&ratelimittest.Failing{Store: openMemory(t)}}
		failed, allowed := 0, 0
		l := newLimiter(t, ratelimit.Config{Store: store, Limit: ratelimit.PerHour(10), Registry: onEvents(func(e registry.Event) {
			switch {
			case e.Warn:
				failed++
			case e.Text == "permits granted":
				allowed++
			}
		})})
		remote := take(t, l, "k", 1)
		require.EqualValues(t, 9, remote.Remaining)
		store.Down()
		require.Equal(t, ratelimit.Result{Allowed: true}, take(t, l, "k", 1))
		cfg := l.Config()
		cfg.OnStoreError = ratelimit.Local
		require.NoError(t, l.SetConfig(cfg))
		r := take(t, l, "k", 2)
		require.True(t, r.Allowed)
		require.EqualValues(t, 5, r.Limit)
		require.EqualValues(t, 3, r.Remaining)
		require.False(t, take(t, l, "k", 4).Allowed)
		require.Equal(t, limits.Never, take(t, l, "k", 6).RetryAfter, "a share has a capacity of its own")
		r, err := l.Peek(t.Context(), "k")
		require.NoError(t, err)
		require.EqualValues(t, 3, r.Remaining)
		_, err = l.Wait(t.Context(), "k", 3)
		require.NoError(t, err)
		_, err = l.Wait(t.Context(), "k", 1)
		require.ErrorIs(t, err, ratelimit.ErrLimited)
		err = l.Refund(t.Context(), remote)
		require.ErrorIs(t, err, ratelimit.ErrStore)
		require.Equal(t, 8, failed)
		require.EqualValues(t, 8, l.Stats().StoreErrors)
		require.Equal(t, 3, allowed)
		require.EqualValues(t, 3, l.Stats().Rejected)
		store.Up()
		require.EqualValues(t, 8, take(t, l, "k", 1).Remaining)
	})
}

func TestLocalNeedsAStoreThatCan(t *testing.T) {
	t.Parallel()
	cfg := ratelimit.Config{Name: "l", Store: &ratelimittest.Failing{Store: openMemory(t)}, OnStoreError: ratelimit.Local}
	require.NoError(t, cfg.Validate())
	_, err := ratelimit.New(cfg)
	const want = "ratelimit.Config.OnStoreError = local: must be Allow or Deny with this Store: wrap it in share.New of stores/share"
	require.ErrorContains(t, err, want)
	l := newLimiter(t, ratelimit.Config{Name: "l", Store: cfg.Store})
	cfg.Limit = ratelimit.PerHour(1)
	require.ErrorContains(t, l.SetConfig(cfg), want)
	require.Equal(t, ratelimit.Limit{}, l.Config().Limit, "nothing changed")
	l = newLimiter(t, ratelimit.Config{OnStoreError: ratelimit.Local, Limit: ratelimit.PerHour(1)})
	require.True(t, take(t, l, "k", 1).Allowed)
	require.False(t, take(t, l, "k", 1).Allowed)
}
