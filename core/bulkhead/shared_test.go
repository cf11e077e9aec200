package bulkhead_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

// A sharedStore is a store in memory, whose operations take a time.
type sharedStore struct {
	trip time.Duration

	mu      sync.Mutex
	fails   error
	used    map[string]int
	most    map[string]int
	changed chan struct{} // closed when permits are returned
	asked   []bulkhead.Request
	returns int
}

func newSharedStore() *sharedStore {
	return &sharedStore{used: map[string]int{}, most: map[string]int{}, changed: make(chan struct{})}
}

func (s *sharedStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

func (s *sharedStore) OpenBulkhead(name string) (bulkhead.Table, error) {
	if name == "bad" {
		return nil, errors.New("no such name")
	}
	return sharedTable{s, name}, nil
}

type sharedTable struct {
	*sharedStore

	name string
}

func (t sharedTable) Acquire(ctx context.Context, r bulkhead.Request) (func(), error) {
	time.Sleep(t.trip)
	over := time.After(r.Wait)
	for first := true; ; first = false {
		t.mu.Lock()
		id, changed := t.name+"/"+r.Key, t.changed
		if first {
			t.asked = append(t.asked, r)
		}
		switch {
		case t.fails != nil:
			defer t.mu.Unlock()
			return nil, t.fails
		case t.used[id]+r.Weight <= r.Limit():
			defer t.mu.Unlock()
			t.used[id] += r.Weight
			t.most[id] = max(t.most[id], t.used[id])
			return func() { t.release(id, r.Weight) }, nil
		}
		t.mu.Unlock()
		select {
		case <-over:
			return nil, bulkhead.ErrFull
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (t sharedTable) release(id string, weight int) {
	time.Sleep(t.trip)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used[id] -= weight
	t.returns++
	close(t.changed)
	t.changed = make(chan struct{})
}

func shared(s bulkhead.Store, change ...func(*bulkhead.Config)) *bulkhead.Bulkhead {
	cfg := bulkhead.Config{Name: "vendor", Store: s, Limit: 2}
	for _, f := range change {
		f(&cfg)
	}
	return core.Must(bulkhead.New(cfg))
}

// TestBulkheadsOfOneNameShareTheirLimit: of three that stay and of one for each call, at random.
func TestBulkheadsOfOneNameShareTheirLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharedStore()
		s.trip = time.Millisecond
		cfg := func(c *bulkhead.Config) { c.Limit = 7 }
		all := []*bulkhead.Bulkhead{shared(s, cfg), shared(s, cfg), shared(s, cfg), nil}
		random := rand.New(rand.NewPCG(1, 2))
		var wg sync.WaitGroup
		for i := range 2000 {
			b, key, weight := all[i%4], "k"+strconv.Itoa(random.IntN(2)), 1+random.IntN(3)
			if b == nil {
				b = shared(s, cfg)
			}
			takes, patience := time.Duration(random.IntN(20))*time.Millisecond, time.Duration(random.IntN(60))*time.Millisecond
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				if p, err := b.AcquireN(ctx, key, weight); err == nil {
					time.Sleep(takes)
					p.Done(core.Success)
				}
			})
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		require.Equal(t, map[string]int{"vendor/k0": 7, "vendor/k1": 7}, s.most)
		require.Equal(t, map[string]int{"vendor/k0": 0, "vendor/k1": 0}, s.used)
		var admitted uint64
		for _, b := range all[:3] {
			stats := b.Stats()
			require.Zero(t, stats.InFlight+stats.Waiting)
			require.Positive(t, stats.Waited)
			require.Positive(t, stats.Canceled)
			require.EqualValues(t, 500, stats.Admitted+stats.Canceled+stats.Rejected)
			admitted += stats.Admitted
		}
		require.Greater(t, s.returns, int(admitted))
	})
}

// TestAWaitForTheStoreIsPartOfMaxWait: with the wait for the permits of the process before it.
func TestAWaitForTheStoreIsPartOfMaxWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharedStore()
		s.trip = time.Millisecond
		var waits []time.Duration
		b := shared(s, func(c *bulkhead.Config) {
			c.MaxWait = 10 * time.Second
			c.Registry = eventtest.Registry(func(_ context.Context, e registry.Event) {
				if e.Text == "call waited for its permits" {
					waits = append(waits, e.Attr("waited").Duration())
				}
			})
		})
		mine, elsewhere := core.Must(b.AcquireN(t.Context(), "k", 2)), make(chan bulkhead.Permit)
		go func() { elsewhere <- core.Must(shared(s).Acquire(t.Context(), "k")) }()
		time.AfterFunc(3*time.Second, func() { mine.Done(core.Success) }) // elsewhere has one of them then
		begun := time.Now()
		go func() {
			p := <-elsewhere
			require.GreaterOrEqual(t, time.Since(begun), 3*time.Second)
			time.Sleep(9 * time.Second)
			p.Done(core.Success)
		}()
		_, err := b.AcquireN(t.Context(), "k", 2)
		require.ErrorIs(t, err, bulkhead.ErrFull)
		require.InDelta(t, 10, time.Since(begun).Seconds(), 0.01)
		p := core.Must(b.Acquire(t.Context(), "k"))
		p.Done(core.Success)
		require.Empty(t, waits, "the other permit is free")
		p = core.Must(b.AcquireN(t.Context(), "k", 2))
		p.Done(core.Success)
		require.Len(t, waits, 1)
		require.InDelta(t, 2, waits[0].Seconds(), 0.01)
		stats, _ := b.Key("k")
		require.EqualValues(t, 3, stats.Admitted)
		require.EqualValues(t, 1, b.Stats().Rejected)
	})
}

// TestCallsThatWaitForTheStoreAreInTheQueue: MaxQueue counts them, and so does Waiting.
func TestCallsThatWaitForTheStoreAreInTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharedStore()
		elsewhere := core.Must(shared(s).AcquireN(t.Context(), "k", 2))
		b := shared(s, func(c *bulkhead.Config) { c.MaxQueue = 3 })
		for range 5 { // two wait for the store, one for them
			go func() {
				if p, err := b.Acquire(t.Context(), "k"); err == nil {
					p.Done(core.Success)
				}
			}()
		}
		synctest.Wait()
		stats := b.Stats()
		require.Equal(t, 3, stats.Waiting)
		require.Zero(t, stats.InFlight)
		require.Zero(t, stats.Admitted)
		require.EqualValues(t, 2, stats.Rejected)
		elsewhere.Done(core.Success)
		synctest.Wait()
		stats = b.Stats()
		require.Zero(t, stats.Waiting)
		require.EqualValues(t, 3, stats.Waited)
		require.EqualValues(t, 3, stats.Admitted)

		one := shared(s, func(c *bulkhead.Config) { c.MaxQueue = 1 })
		elsewhere = core.Must(shared(s).AcquireN(t.Context(), "k", 2))
		for range 2 { // both have permits of the process, and only one can wait
			go func() {
				if p, err := one.Acquire(t.Context(), "k"); err == nil {
					p.Done(core.Success)
				}
			}()
		}
		synctest.Wait()
		require.Equal(t, 1, one.Stats().Waiting)
		require.EqualValues(t, 1, one.Stats().Rejected)
		elsewhere.Done(core.Success)
		synctest.Wait()

		never := shared(s, func(c *bulkhead.Config) { c.MaxQueue = -1 })
		elsewhere = core.Must(shared(s).AcquireN(t.Context(), "k", 2))
		asked := len(s.asked)
		_, err := never.Acquire(t.Context(), "k")
		require.ErrorIs(t, err, bulkhead.ErrFull)
		require.Len(t, s.asked, asked+1, "it asks once")
		elsewhere.Done(core.Success)
		p := core.Must(never.Acquire(t.Context(), "k"))
		p.Done(core.Success)
	})
}

func TestAWaitForTheStoreEndsWithItsContextAndWithClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharedStore()
		held := core.Must(shared(s).AcquireN(t.Context(), "", 2))
		b := shared(s)
		why := errors.New("no time")
		ctx, cancel := context.WithCancelCause(t.Context())
		for _, c := range []struct {
			end  func()
			want error
		}{{func() { cancel(why) }, why}, {func() { _ = b.Close() }, core.ErrClosed}} {
			result := make(chan error)
			go func() {
				_, err := b.Acquire(ctx, "")
				result <- err
			}()
			synctest.Wait()
			require.Equal(t, 1, b.Stats().Waiting)
			c.end()
			require.ErrorIs(t, <-result, c.want)
			ctx = t.Context()
		}
		require.EqualValues(t, 2, b.Stats().Canceled)
		require.Zero(t, b.Stats().Waiting+b.Stats().InFlight)
		held.Done(core.Success)
		_, err := b.Acquire(t.Context(), "")
		require.ErrorIs(t, err, core.ErrClosed)
		require.Zero(t, s.used["vendor/"])
	})
}

// TestAFailureOfTheStore: Deny rejects the call, Local decides as without a store.
func TestAFailureOfTheStore(t *testing.T) {
	t.Parallel()
	for _, policy := range []bulkhead.FailurePolicy{bulkhead.Deny, bulkhead.Local} {
		s := newSharedStore()
		var events []string
		b := shared(s, func(c *bulkhead.Config) {
			c.OnStoreError, c.MaxQueue = policy, -1
			c.Registry = eventtest.Registry(func(_ context.Context, e registry.Event) {
				what := map[bool]string{true: "recovered", false: "rejected"}[e.Outage]
				if err := e.Err(); err != nil {
					what = "failed: " + err.Error()
				}
				events = append(events, what+" "+e.Key)
			})
		})
		down := errors.New("no reply")
		s.fail(down)
		p, err := b.AcquireN(t.Context(), "k", 2)
		if policy == bulkhead.Deny {
			require.ErrorIs(t, err, bulkhead.ErrStore)
			require.ErrorIs(t, err, core.ErrRejected)
			require.ErrorIs(t, err, down)
			require.EqualError(t, err, "bulkhead: vendor: store failed: no reply")
			require.Equal(t, []string{"failed: no reply k", "rejected k"}, events)
			require.EqualValues(t, 1, b.Stats().Rejected)
		} else {
			require.NoError(t, err)
			_, err = b.Acquire(t.Context(), "k")
			require.ErrorIs(t, err, bulkhead.ErrFull, "the process has its limit")
			require.Equal(t, []string{"failed: no reply k", "rejected k"}, events)
			require.NoError(t, p.Context().Err())
		}
		p.Done(core.Success)
		require.Zero(t, s.returns)
		p, err = b.AcquireN(t.Context(), "k", 2)
		require.Equal(t, policy == bulkhead.Local, err == nil)
		p.Done(core.Success)
		require.Equal(t, "failed: no reply k", events[0])
		require.NotContains(t, events[1:], events[0], "one event for a failure")
		s.fail(nil)
		events = nil
		elsewhere := core.Must(shared(s).Acquire(t.Context(), "k"))
		_, err = b.AcquireN(t.Context(), "k", 2)
		require.ErrorIs(t, err, bulkhead.ErrFull)
		require.Equal(t, []string{"recovered k", "rejected k"}, events, "a refusal is a decision of the store")
		elsewhere.Done(core.Success)
		p = core.Must(b.AcquireN(t.Context(), "k", 2))
		p.Done(core.Success)
		require.Len(t, events, 2)
		require.EqualValues(t, 2, b.Stats().StoreErrors)
		require.Zero(t, b.Stats().InFlight)
	}
}

func TestACallLearnsThatItsPermitsAreLost(t *testing.T) {
	t.Parallel()
	s := newSharedStore()
	var events []registry.Event
	change := func(c *bulkhead.Config) {
		c.Limit = 10
		c.Registry = eventtest.Registry(func(ctx context.Context, e registry.Event) {
			if ctx.Err() == nil { // it is that of Acquire
				events = append(events, e)
			}
		})
	}
	b, local := shared(s, change), shared(s, change, func(c *bulkhead.Config) { c.OnStoreError = bulkhead.Local })
	lost := func(err error) { s.asked[len(s.asked)-1].Lost(err) }
	unreachable := errors.New("no reply")

	p := core.Must(b.AcquireN(t.Context(), "k", 2))
	ctx := p.Context()
	require.NoError(t, ctx.Err())
	lost(unreachable)
	require.ErrorIs(t, context.Cause(ctx), bulkhead.ErrLost)
	require.ErrorIs(t, context.Cause(ctx), unreachable)
	lost(nil)
	p.Done(core.Success)
	require.Equal(t, []registry.Event{{Text: "call lost its permits", Warn: true, Key: "k", Attrs: []slog.Attr{
		slog.Int("weight", 2), slog.Any("err", unreachable),
	}}}, events)
	require.EqualValues(t, 1, b.Stats().Lost)
	require.Equal(t, 1, s.returns)

	p = core.Must(local.Acquire(t.Context(), "k"))
	ctx = p.Context()
	lost(unreachable)
	require.NoError(t, ctx.Err())
	lost(nil)
	require.Equal(t, bulkhead.ErrLost, context.Cause(ctx))
	p.Done(core.Success)

	p = core.Must(b.Acquire(t.Context(), "k"))
	ctx = p.Context()
	p.Done(core.Success)
	p.Done(core.Success)
	lost(nil)
	require.Equal(t, context.Canceled, context.Cause(ctx))
	require.Len(t, events, 2)
	require.Equal(t, 3, s.returns)

	_, err := bulkhead.Do(t.Context(), b, func(ctx context.Context) (int, error) {
		lost(nil)
		return 0, context.Cause(ctx)
	})
	require.ErrorIs(t, err, bulkhead.ErrLost)
	require.Zero(t, s.used["vendor/k"]+s.used["vendor/"])
}

// TestSharedPermitsAreReturnedWhateverHappens: also if the store panics, or an observer ends the goroutine.
func TestSharedPermitsAreReturnedWhateverHappens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSharedStore()
		held := core.Must(shared(s).AcquireN(t.Context(), "", 2))
		b := shared(s, func(c *bulkhead.Config) {
			c.Registry = eventtest.Registry(func(context.Context, registry.Event) { runtime.Goexit() })
		})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = b.Acquire(t.Context(), "")
		}()
		synctest.Wait()
		held.Done(core.Success)
		<-ended
		require.Zero(t, s.used["vendor/"])
		require.Panics(t, func() {
			_, _ = bulkhead.Do(t.Context(), b, func(context.Context) (int, error) { panic("bug") })
		})
		panics := shared(panickingStore{})
		for range 5 {
			require.PanicsWithValue(t, "bug", func() { _, _ = panics.Acquire(t.Context(), "") })
		}
		for _, each := range []*bulkhead.Bulkhead{b, panics} {
			require.Zero(t, each.Stats().InFlight+each.Stats().Waiting)
		}
		require.Zero(t, panics.Stats().Admitted)
		require.Zero(t, s.used["vendor/"])
	})
}

type panickingStore struct{}

func (panickingStore) OpenBulkhead(string) (bulkhead.Table, error) { return panickingStore{}, nil }

func (panickingStore) Acquire(context.Context, bulkhead.Request) (func(), error) { panic("bug") }

func TestTheStoreSeesALimitThatChanges(t *testing.T) {
	t.Parallel()
	s := newSharedStore()
	b := shared(s)
	p := core.Must(b.Acquire(t.Context(), ""))
	require.Equal(t, 2, s.asked[0].Limit())
	cfg := b.Config()
	cfg.Limit = 5
	require.NoError(t, b.SetConfig(cfg))
	require.Equal(t, 5, s.asked[0].Limit())
	more := core.Must(b.AcquireN(t.Context(), "", 4))
	more.Done(core.Success)
	p.Done(core.Success)
	cfg.Store = newSharedStore()
	require.ErrorContains(t, b.SetConfig(cfg), "bulkhead.Config.Store = another one: must stay as it is")
	cfg.Store = nil
	require.ErrorIs(t, b.SetConfig(cfg), core.ErrConfig)
	_, err := bulkhead.New(bulkhead.Config{Name: "bad", Store: s})
	require.EqualError(t, err, "no such name")
}

func TestIdleKeysOfAStoreAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := shared(newSharedStore(), func(c *bulkhead.Config) { c.MaxKeys = 2 })
		use := func(key string) {
			p := core.Must(b.Acquire(t.Context(), key))
			p.Done(core.Success)
		}
		for i := range 10 {
			use(strconv.Itoa(i))
		}
		require.Equal(t, 2, b.Stats().Keys)
		time.Sleep(2 * time.Minute)
		b.Stats()
		time.Sleep(2 * time.Minute)
		stats := b.Stats()
		require.Zero(t, stats.Keys)
		require.EqualValues(t, 10, stats.Admitted)
	})
}

func TestAStoreNeedsAFixedLimit(t *testing.T) {
	t.Parallel()
	err := bulkhead.Config{Store: newSharedStore(), Backoff: 0.5, NewestFirst: true, OnStoreError: 2}.Validate()
	for _, text := range []string{
		"bulkhead.Config.Backoff = 0.5: must be 0 with a Store",
		"bulkhead.Config.NewestFirst = true: must be false with a Store",
		"bulkhead.Config.OnStoreError = FailurePolicy(2): must be Deny or Local",
	} {
		require.ErrorContains(t, err, text)
	}
	require.ErrorContains(t, bulkhead.Config{OnStoreError: bulkhead.Local}.Validate(), "OnStoreError = local: must be Deny without a Store")
	require.ErrorContains(t, bulkhead.Config{Store: (*sharedStore)(nil)}.Validate(), "Store = a nil pointer")
}
