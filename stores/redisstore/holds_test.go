package redisstore

import (
	"context"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

// newShared returns a cooldown over a store of its own, as another process has it.
func newShared(tb testing.TB, client redis.UniversalClient, cfg Config, change ...func(*cooldown.Config)) *cooldown.Cooldown {
	tb.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = patient
	}
	s, err := New(client, cfg)
	require.NoError(tb, err)
	return madeOver(tb, s, cooldown.New, cooldown.Config{Name: "vendor", Store: s}, change)
}

// madeOver makes a mechanism over a store, and closes both at the end.
func madeOver[C any, M io.Closer](tb testing.TB, s *Store, construct func(C) (M, error), cfg C, change []func(*C)) M {
	tb.Helper()
	for _, f := range change {
		f(&cfg)
	}
	m, err := construct(cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		_ = m.Close()
		_ = s.Close()
	})
	return m
}

// isHeld reports whether calls with a key are held.
func isHeld(c *cooldown.Cooldown, key string) func() bool {
	return func() bool {
		_, ok := c.Until(key)
		return ok
	}
}

// use makes a call with a key, which keeps the cooldown in use.
func use(tb testing.TB, c *cooldown.Cooldown, key string) {
	tb.Helper()
	p, err := c.Acquire(context.Background(), key)
	require.NoError(tb, err)
	p.Done(core.Success)
}

// isPushed reports whether a cooldown receives messages.
func isPushed(c *cooldown.Cooldown) func() bool {
	t := c.Config().Store.(*Store).sharing.all()[0] //nolint:forcetypeassert // of newShared
	return func() bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.pushed
	}
}

func TestAHoldIsPushedToTheOthers(t *testing.T) {
	t.Parallel()
	leavesNothing(t)
	srv := startServer(t)
	listener := srv.client(t)
	a, b := newShared(t, srv.client(t), Config{}), newShared(t, listener, Config{})
	for _, c := range []*cooldown.Cooldown{a, b} {
		use(t, c, "k")
		require.Eventually(t, isPushed(c), patient, time.Millisecond)
	}
	waiting := make(chan time.Time)
	b.Hold(t.Context(), "k", 500*time.Millisecond)
	go func() { // it waits, and learns of the longer hold
		use(t, b, "k")
		waiting <- time.Now()
	}()
	begun := time.Now()
	const longer = 3 * time.Second // it is to be known before it is over
	a.Hold(t.Context(), "k", longer)
	require.Eventually(t, func() bool {
		until, _ := b.Until("k")
		return !until.Before(begun.Add(longer))
	}, patient, time.Millisecond)
	latest := time.Now().Add(longer)
	until, _ := a.Until("k")
	other, _ := b.Until("k")
	require.False(t, other.Before(until), "no earlier there")
	require.False(t, other.After(latest), "and later by the time of the message at most")
	require.False(t, (<-waiting).Before(begun.Add(longer)))
	require.Positive(t, b.Stats().Waited)

	reads := countScripts(listener)
	for pushed, i := 0, 0; pushed < 5; i++ {
		require.Less(t, i, 50, "by a message, not by the reading of each second")
		before := reads.Load()
		a.Hold(t.Context(), strconv.Itoa(i), time.Hour)
		require.Eventually(t, isHeld(b, strconv.Itoa(i)), patient, time.Millisecond)
		if reads.Load() == before {
			pushed++
		}
	}
}

func TestAReleaseIsForAll(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	a, b := newShared(t, srv.client(t), Config{}), newShared(t, srv.client(t), Config{})
	use(t, b, "")
	a.Hold(t.Context(), "k", time.Hour)
	require.Eventually(t, isHeld(b, "k"), patient, time.Millisecond)
	require.True(t, b.Release("k"))
	require.Eventually(t, func() bool { return !isHeld(a, "k")() }, patient, time.Millisecond)
	probe, err := a.Acquire(t.Context(), "k")
	require.NoError(t, err)
	require.True(t, probe.Probe(), "each process sends a probe of its own")
	late := newShared(t, srv.client(t), Config{})
	use(t, late, "k")
	require.False(t, isHeld(b, "k")(), "the hold does not come back")
}

// A process that starts during a hold makes no call.
func TestTheFirstCallOfAProcessIsHeld(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	for name, cfg := range map[string]Config{"plain": {}, "hashed": {HashKeys: true, Prefix: "other"}} {
		for _, key := range []string{"", "a:b", "{x} ü\x00", strings.Repeat("k", 1024)} {
			a := newShared(t, srv.client(t), cfg)
			a.Hold(t.Context(), key, 9*time.Minute)
			for i := 0; ; i++ {
				late := newShared(t, srv.client(t), cfg)
				_, err := late.Acquire(t.Context(), key)
				if err != nil {
					require.ErrorIs(t, err, cooldown.ErrHeld, name)
					wait, _ := core.RetryAfter(err)
					require.InDelta(t, 9*time.Minute, wait, float64(time.Minute))
					break
				}
				require.Less(t, i, 1000, "the server has the hold by now")
			}
		}
	}
}

// countScripts counts the scripts that a client sends.
func countScripts(c *redis.Client) *atomic.Int64 {
	n := &atomic.Int64{}
	c.AddHook(hook(func(context.Context, redis.Cmder) { n.Add(1) }))
	return n
}

// TestReadingsAreRare: with messages, calls send nothing, and holds are read once a second while there
// are calls; without messages, ten times a second.
func TestReadingsAreRare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*testing.T, server)
		pushed  bool
		every   time.Duration
	}{
		"pushed": {func(*testing.T, server) {}, true, refreshEvery},
		"polled": {deaf, false, pollEvery},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := startServer(t)
			c.prepare(t, srv)
			client := srv.client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
			cool := newShared(t, client, Config{})
			use(t, cool, "k")
			if c.pushed {
				require.Eventually(t, isPushed(cool), patient, time.Millisecond)
			}
			sent := countScripts(client)
			begun := time.Now()
			for time.Since(begun) < time.Second || sent.Load() == 0 && time.Since(begun) < patient {
				use(t, cool, "k")
			}
			most := int64(time.Since(begun)/c.every) + 5 // the first ones, and two subscriptions that are tried
			require.LessOrEqual(t, sent.Load(), most)
			require.Positive(t, sent.Load())
		})
	}
}

// TestAnIdleTableReadsNothing: ten seconds after the last call. Without messages, the next call then
// waits for a reading.
func TestAnIdleTableReadsNothing(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	for _, c := range []struct {
		subscribed int
		every      time.Duration
	}{{0, pollEvery}, {1, refreshEvery}} {
		opened, err := newStore(t, client, Config{}).OpenCooldown("t", cooldown.Listener{})
		require.NoError(t, err)
		table := opened.(*holds) //nolint:forcetypeassert // it is one
		table.subscribed = c.subscribed
		table.used.Store(true)
		now := time.Now()
		_, err = table.work(t.Context(), now)
		require.NoError(t, err)
		require.False(t, table.stale.Load())
		require.Equal(t, c.subscribed > 0, table.pushed)
		wait, err := table.work(t.Context(), now.Add(idleAfter-time.Millisecond))
		require.NoError(t, err)
		require.Equal(t, c.every, wait)
		wait, err = table.work(t.Context(), now.Add(idleAfter))
		require.NoError(t, err)
		require.Equal(t, never, wait)
		require.Equal(t, c.subscribed == 0, table.stale.Load())
	}
}

func TestTheSetOfHoldsExpires(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	a := newShared(t, client, Config{})
	size := func() int64 {
		n, err := client.DBSize(t.Context()).Result()
		require.NoError(t, err)
		return n
	}
	a.Hold(t.Context(), "k", time.Minute)
	require.Eventually(t, func() bool { return size() == 1 }, patient, time.Millisecond)
	left, err := client.PTTL(t.Context(), "gresil:{cooldowns}:=vendor").Result()
	require.NoError(t, err)
	require.InDelta(t, time.Minute, left, float64(busy))
	b := newShared(t, client, Config{}, func(c *cooldown.Config) { c.Name = "short" })
	b.Hold(t.Context(), "k", 50*time.Millisecond)
	require.Eventually(t, func() bool { return b.Stats().Holds == 1 && size() == 1 }, patient, time.Millisecond)
}

// A hold in the table of another name, or with another Prefix, is not shared.
func TestNamesAndPrefixesAreApart(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	a := newShared(t, client, Config{})
	same := newShared(t, client, Config{})
	others := []*cooldown.Cooldown{
		newShared(t, client, Config{Prefix: "other"}),
		newShared(t, client, Config{}, func(c *cooldown.Config) { c.Name = "vendor:" }),
		newShared(t, client, Config{}, func(c *cooldown.Config) { c.Name = "=vendor" }),
	}
	for _, o := range append(others, same) {
		use(t, o, "")
	}
	a.Hold(t.Context(), "k", time.Hour)
	require.Eventually(t, isHeld(same, "k"), patient, time.Millisecond)
	for _, o := range others {
		use(t, o, "k")
	}
}

// TestCloseEndsTheConnectionForMessages: the last cooldown that is closed ends the goroutines and the
// connection, and a later one begins anew.
func TestCloseEndsTheConnectionForMessages(t *testing.T) {
	t.Parallel()
	leavesNothing(t)
	srv := startServer(t)
	client := srv.client(t)
	s := newStore(t, client, Config{})
	subscribers := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			list, err := client.Do(t.Context(), "client", "list", "type", "pubsub").Text()
			return err == nil && strings.Count(list, "\n") == n
		}, patient, time.Millisecond)
	}
	for range 2 {
		a := core.Must(cooldown.New(cooldown.Config{Name: "a", Store: s}))
		subscribers(0)
		use(t, a, "k")
		subscribers(1)
		b := core.Must(cooldown.New(cooldown.Config{Name: "b", Store: s}))
		use(t, b, "k")
		for _, table := range s.sharing.all() {
			require.Eventually(t, func() bool {
				table.mu.Lock()
				defer table.mu.Unlock()
				return table.pushed
			}, patient, time.Millisecond, table.name)
		}
		subscribers(1)
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
		subscribers(0)
	}
	c := core.Must(cooldown.New(cooldown.Config{Name: "a", Store: s}))
	use(t, c, "k")
	subscribers(1)
	require.NoError(t, s.Close())
	subscribers(0)
	use(t, c, "k")
	c.Hold(t.Context(), "k", time.Hour)
	require.True(t, isHeld(c, "k")(), "in this process")
	_, err := cooldown.New(cooldown.Config{Store: s})
	require.ErrorIs(t, err, core.ErrClosed)
	require.EqualError(t, err, "redisstore: the store is closed: closed")
}

// TestWhatWasSaidLastIsSent: a process that is told to wait and ends has told the others.
func TestWhatWasSaidLastIsSent(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	for name, end := range map[string]func(*Store, *cooldown.Cooldown){
		"cooldown": func(_ *Store, c *cooldown.Cooldown) { _ = c.Close() },
		"store":    func(s *Store, _ *cooldown.Cooldown) { _ = s.Close() },
	} {
		s := newStore(t, client, Config{})
		c := core.Must(cooldown.New(cooldown.Config{Name: name, Store: s}))
		use(t, c, "k")
		c.Hold(t.Context(), "k", time.Hour)
		end(s, c)
		require.Eventually(t, func() bool { return client.Exists(t.Context(), "gresil:{cooldowns}:="+name).Val() == 1 }, patient, time.Millisecond)
	}
}

// A listener that ends its goroutine, or closes the cooldown, does no harm to others.
func TestListenersOfSharedCooldowns(t *testing.T) {
	t.Parallel()
	leavesNothing(t)
	srv := startServer(t)
	a := newShared(t, srv.client(t), Config{})
	var holds atomic.Int64
	ends := newShared(t, srv.client(t), Config{}, func(c *cooldown.Config) {
		c.Registry = eventtest.Registry(func(_ context.Context, e registry.Event) {
			if e.Text == "calls are held back" {
				holds.Add(1)
				runtime.Goexit()
			}
		})
	})
	var closes *cooldown.Cooldown
	closes = newShared(t, srv.client(t), Config{}, func(c *cooldown.Config) {
		c.Registry = eventtest.Registry(func(_ context.Context, e registry.Event) {
			if e.Text == "calls are held back" {
				_ = closes.Close()
			}
		})
	})
	use(t, ends, "k")
	use(t, closes, "k")
	for i, key := range []string{"a", "b", "c"} {
		a.Hold(t.Context(), key, time.Hour)
		require.Eventually(t, isHeld(ends, key), patient, time.Millisecond)
		require.Eventually(t, func() bool { return holds.Load() == int64(i+1) }, patient, time.Millisecond)
	}
	require.Eventually(t, func() bool {
		_, err := closes.Acquire(t.Context(), "k")
		return err != nil
	}, patient, time.Millisecond)
}

// TestTheServersClockSteps: whatever the clock of the server does, no hold becomes shorter where it is
// known, and a hold that the server has lost by it is told again.
func TestTheServersClockSteps(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	var step atomic.Int64
	shared := func() *cooldown.Cooldown {
		c := newShared(t, client, Config{})
		c.Config().Store.(*Store).clock = func() time.Time { return time.Now().Add(time.Duration(step.Load())) } //nolint:forcetypeassert // see newShared
		return c
	}
	a, b := shared(), shared()
	use(t, a, "")
	use(t, b, "")
	for _, c := range []struct {
		key  string
		step time.Duration
	}{{"now", 0}, {"forward", time.Hour}, {"back", -time.Hour}} {
		step.Store(int64(c.step))
		a.Hold(t.Context(), c.key, 10*time.Minute)
		require.Eventually(t, isHeld(b, c.key), patient, time.Millisecond, c.key)
		for _, key := range []string{"now", c.key} {
			mine, _ := a.Until(key)
			other, _ := b.Until(key)
			require.False(t, other.Before(mine), key)
		}
		late := shared()
		use(t, late, "")
		require.Eventually(t, isHeld(late, "now"), patient, time.Millisecond, c.key)
	}
}

// TestTheServerKeepsTheLaterEnd: of two holds, in either order. A release ends both, and what was
// published or read before it counts no more.
func TestTheServerKeepsTheLaterEnd(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	ctx := t.Context()
	var learned []string
	table := func(name string) *holds {
		t.Helper()
		opened, err := newStore(t, client, Config{}).OpenCooldown("t", cooldown.Listener{
			Held: func(key string, _ time.Duration) { learned = append(learned, name+" held "+key) }, Released: func(key string) { learned = append(learned, name+" released "+key) },
		})
		require.NoError(t, err)
		return opened.(*holds) //nolint:forcetypeassert // it is one
	}
	a, b := table("a"), table("b")
	send := func(t *testing.T, from *holds, left time.Duration, release bool) {
		t.Helper()
		from.unsent["=k"] = &report{id: "=k", until: time.Now().Add(left), release: release}
		require.NoError(t, from.send(ctx))
	}
	left := func() time.Duration {
		now, err := client.Time(ctx).Result()
		require.NoError(t, err)
		return time.Duration(client.ZScore(ctx, a.name, "=k").Val()-float64(now.UnixMicro()-epoch)) * time.Microsecond
	}
	send(t, a, time.Hour, false)
	send(t, b, time.Minute, false)
	require.InDelta(t, time.Hour, left(), float64(time.Minute))
	require.Equal(t, []string{"b held k"}, learned, "by the reply")
	send(t, b, 2*time.Hour, false)
	require.InDelta(t, 2*time.Hour, left(), float64(time.Minute))
	require.NoError(t, a.readAll(ctx, 0))
	require.NoError(t, a.readAll(ctx, 0))
	require.Equal(t, []string{"b held k", "a held k"}, learned, "once")

	before := a.known["=k"]
	send(t, a, 2*time.Hour, true)
	released := a.known["=k"].released
	require.Positive(t, released)
	a.learn(fact{"=k", before.till, released - 1000, false})
	require.Len(t, learned, 2, "from before the release")
	require.NoError(t, a.readAll(ctx, 0))
	require.NoError(t, b.readAll(ctx, 0))
	require.NoError(t, b.readAll(ctx, 0))
	require.Equal(t, []string{"b held k", "a held k", "b released k"}, learned)
	send(t, b, time.Minute, false)
	require.NoError(t, a.readAll(ctx, 0))
	require.Equal(t, "a held k", learned[3])
}

// Not parallel, as it counts allocations.
func TestASharedCallDoesNotAllocate(t *testing.T) { //nolint:paralleltest // see above
	for name, cfg := range map[string]Config{"plain": {}, "hashed": {HashKeys: true}} {
		cool := newShared(t, startServer(t).client(t), cfg)
		use(t, cool, "k")
		require.Eventually(t, isPushed(cool), patient, time.Millisecond)
		require.Zero(t, testing.AllocsPerRun(10_000, func() {
			p, err := cool.Acquire(t.Context(), "k")
			if err != nil || !p.Ready() {
				t.Error(err)
			}
			p.Done(core.Success)
		}), name)
	}
}
