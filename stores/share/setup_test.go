package share

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/stores/redisstore"
)

// kinds are a limit of each kind.
func kinds(n int64, period time.Duration) map[string]ratelimit.Limit {
	return map[string]ratelimit.Limit{
		"window":  ratelimit.FixedWindow(n, period),
		"aligned": ratelimittest.Aligned(n, period),
		"bucket":  ratelimit.TokenBucket(n, period, n),
		"sliding": ratelimit.SlidingWindow(n, period, 10),
		"counter": ratelimit.SlidingCounter(n, period),
		"log":     ratelimit.SlidingLog(n, period),
		"several": ratelimit.FixedWindow(n, period).And(ratelimit.SlidingLog(n, period)).And(ratelimit.TokenBucket(n, period, n)),
	}
}

func inMemory() ratelimit.Store { return &ratelimittest.Memory{} }

func newStore(tb testing.TB, inner ratelimit.Store, cfg Config) *sharer {
	tb.Helper()
	s, err := New(inner, cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = s.Close() })
	return s.(*sharer) //nolint:forcetypeassert // it is ours
}

func newLimiter(tb testing.TB, store ratelimit.Store, limit ratelimit.Limit) *ratelimit.Limiter {
	tb.Helper()
	l, err := ratelimit.New(ratelimit.Config{Name: "l", Store: store, Limit: limit, OnStoreError: ratelimit.Local})
	require.NoError(tb, err)
	return l
}

// localOf is the share of the limiter of a store.
func localOf(s *sharer) *local {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tables["l"].local.Load()
}

// A group is stores in memory that can fail, and that know of each other.
type group struct {
	*ratelimittest.Failing
	n, rank int64
	at      time.Time
}

type groupTable struct {
	limits.Table
	group *group
}

func (g *group) Open(name string) (limits.Table, error) {
	t, err := g.Failing.Open(name)
	return groupTable{t, g}, err
}

// Close leaves the state to the others.
func (g *group) Close() error { return nil }

func (t groupTable) Unwrap() limits.Table { return t.Table }

func (t groupTable) Instances() (n, rank int64, now time.Duration) {
	return t.group.n, t.group.rank, time.Hour + time.Since(t.group.at)
}

// newGroup returns the shares of n instances of a store in memory.
func newGroup(tb testing.TB, n int, limit ratelimit.Limit) (stores []*group, limiters []*ratelimit.Limiter) {
	tb.Helper()
	memory, at := inMemory(), time.Now()
	for i := range n {
		g := &group{&ratelimittest.Failing{Store: memory}, int64(n), int64(i), at}
		s := newStore(tb, g, Config{})
		stores, limiters = append(stores, g), append(limiters, newLimiter(tb, s, limit))
	}
	return stores, limiters
}

// storeOf is the store of a limiter.
func storeOf(l *ratelimit.Limiter) *sharer { return l.Config().Store.(*sharer) } //nolint:forcetypeassert // it is ours

// takeAll takes one by one until it is refused.
func takeAll(tb testing.TB, l *ratelimit.Limiter, key string) (n int64) {
	tb.Helper()
	for {
		r, err := l.Take(context.Background(), key, 1)
		require.NoError(tb, err)
		if !r.Allowed {
			require.NotZero(tb, r.RetryAfter)
			return n
		}
		require.EqualValues(tb, 1, r.Permits)
		n++
	}
}

func take(tb testing.TB, l *ratelimit.Limiter, key string, n int64) ratelimit.Result {
	tb.Helper()
	r, err := l.Take(context.Background(), key, n)
	require.NoError(tb, err)
	return r
}

// shared is a server for the tests that do not stop it, each with a prefix of its own.
var shared struct { //nolint:gochecknoglobals // of TestMain
	*redisserver.Server

	prefixes atomic.Int64
}

func TestMain(m *testing.M) {
	dir := core.Must(os.MkdirTemp("", "share"))
	shared.Server = core.Must(redisserver.Start(dir))
	flag.Parse()
	if set := flag.Lookup("test.parallel"); set.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = set.Value.Set("8") // the tests wait more than they compute
	}
	code := m.Run()
	shared.Kill()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// A site is an instance: its own connection to the shared server, which can be lost.
type site struct {
	proxy  *redistest.Proxy
	redis  *redisstore.Store
	store  *sharer
	prefix string
	*ratelimit.Limiter
}

func prefix() string { return fmt.Sprint("share", shared.prefixes.Add(1)) }

func newSite(tb testing.TB, prefix string, mode redisstore.Mode, limit ratelimit.Limit) *site {
	tb.Helper()
	proxy := redistest.StartProxy(tb, shared.Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, DialerRetries: 1})
	tb.Cleanup(func() { _ = client.Close() })
	inner := core.Must(redisstore.New(client, redisstore.Config{Prefix: prefix, Mode: mode, Timeout: time.Second}))
	store := newStore(tb, inner, Config{})
	return &site{proxy, inner, store, prefix, newLimiter(tb, store, limit)}
}

// sites are instances that have counted each other.
func sites(tb testing.TB, n int, mode redisstore.Mode, limit ratelimit.Limit) (all []*site) {
	tb.Helper()
	prefix := prefix()
	for range n {
		s := newSite(tb, prefix, mode, limit)
		decided(tb, s)
		all = append(all, s)
	}
	for _, s := range all {
		require.Eventually(tb, func() bool { return s.store.Stats().Instances == n }, time.Minute, 5*time.Millisecond)
	}
	return all
}

// decided waits until the server has decided.
func decided(tb testing.TB, s *site) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		r, err := s.Peek(context.Background(), "decided")
		return err == nil && r.Receipt.At > 0
	}, time.Minute, 10*time.Millisecond)
}

// lose has nothing come through, until the store finds out that the server is unavailable.
func lose(tb testing.TB, all ...*site) {
	tb.Helper()
	for _, s := range all {
		s.proxy.Swallow()
	}
	for _, s := range all {
		require.Eventually(tb, func() bool {
			_, err := s.Peek(context.Background(), "lost")
			return err == nil && s.redis.Stats().Unavailable
		}, time.Minute, time.Millisecond)
	}
}

// atServer is what a store that knows nothing finds at the server.
func atServer(tb testing.TB, s *site, limit ratelimit.Limit, key string) int64 {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: shared.Addr})
	defer func() { _ = client.Close() }()
	fresh := core.Must(redisstore.New(client, redisstore.Config{Prefix: s.prefix, Timeout: 10 * time.Second}))
	defer func() { _ = fresh.Close() }()
	l, err := ratelimit.New(ratelimit.Config{Name: "l", Store: fresh, Limit: limit, OnStoreError: ratelimit.Deny})
	require.NoError(tb, err)
	r, err := l.Peek(context.Background(), key)
	require.NoError(tb, err)
	return r.Remaining
}

func spec(l ratelimit.Limit) limits.Spec { return limits.Limit(l).Specs()[0] }
