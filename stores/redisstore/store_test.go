package redisstore

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/internal/redistest"
)

// TestMain runs more tests at a time, as they wait more than they compute. They stop servers: go-redis would log each
// connection that fails.
func TestMain(m *testing.M) {
	logging.Disable()
	if addr := os.Getenv(leaseChildEnv); addr != "" {
		leaseChild(addr)
		return
	}
	flag.Parse()
	if set := flag.Lookup("test.parallel"); set.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = set.Value.Set("8")
	}
	os.Exit(m.Run())
}

// A server is a redis-server of a test.
type server struct{ *redisserver.Server }

func (s server) client(tb testing.TB, change ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	opt := &redis.Options{Addr: s.Addr}
	for _, f := range change {
		f(opt)
	}
	c := redis.NewClient(opt)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// virtual returns a client for tests that set the clock of a store. The server would expire keys by
// its own clock, so every script that the client sends keeps them longer.
func (s server) virtual(tb testing.TB) *redis.Client {
	tb.Helper()
	c := s.client(tb, func(o *redis.Options) {
		o.ContextTimeoutEnabled = true // a store uses it as it is, with its hooks
		o.PoolSize = 64                // no call waits for a connection: go-redis keeps the timer for others, of any bubble
	})
	c.AddHook(keepsKeys{})
	return c
}

// keptLonger is how much longer than they say the scripts of a virtual client keep keys.
const keptLonger = time.Hour

// A keepsKeys is a hook that replaces the scripts of a store by those that keep keys longer.
type keepsKeys struct{}

func (keepsKeys) DialHook(next redis.DialHook) redis.DialHook { return next }

func (keepsKeys) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		keepKeys(cmd)
		return next(ctx, cmd)
	}
}

func (keepsKeys) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			keepKeys(cmd)
		}
		return next(ctx, cmds)
	}
}

func keepKeys(cmd redis.Cmder) {
	args := cmd.Args()
	if len(args) < 2 {
		return
	}
	const expires = "'PX', "
	switch text, is := args[1].(string); {
	case args[0] == "evalsha":
		if kept, ok := kept.Load(args[1]); ok {
			args[1] = kept
		}
	case args[0] == "eval" && is && strings.Contains(text, expires):
		longer := strings.ReplaceAll(text, expires, expires+strconv.FormatInt(keptLonger.Milliseconds(), 10)+" + ")
		kept.Store(newScript(text).sha, newScript(longer).sha)
		args[1] = longer
	}
}

// kept are the hashes of scripts that keep keys longer, by those of the originals.
var kept sync.Map //nolint:gochecknoglobals // shared by all clients

// startServer starts a redis-server on a port of its own, which ends with the test.
func startServer(tb testing.TB, args ...string) server {
	tb.Helper()
	return server{redistest.Start(tb, args...)}
}

// patient is a Timeout for tests that share a machine.
const patient = 10 * time.Second

func newStore(tb testing.TB, client redis.UniversalClient, cfg Config) *Store {
	tb.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = patient
	}
	s, err := New(client, cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func open(tb testing.TB, s ratelimit.Store, name string) limits.Table {
	tb.Helper()
	table, err := s.Open(name)
	require.NoError(tb, err)
	return table
}

func take(tb testing.TB, t limits.Table, key string, l ratelimit.Limit, n int64) limits.Result {
	tb.Helper()
	id := planned(tb, t, l)
	r, err := t.Apply(context.Background(), key, id, limits.Op{Cost: n})
	require.NoError(tb, err)
	return r
}

func planned(tb testing.TB, t limits.Table, l ratelimit.Limit) *limits.Plan {
	tb.Helper()
	p, err := t.Plan(limits.Limit(l).Specs())
	require.NoError(tb, err)
	return p
}

// decides waits until the server decides.
func decides(tb testing.TB, t limits.Table, key string, p *limits.Plan) {
	tb.Helper()
	require.Eventually(tb, func() bool {
		_, err := t.Apply(tb.Context(), key, p, limits.Op{Cost: 1})
		return err == nil
	}, busy, time.Millisecond)
}

// modes runs a test in both.
func modes(t *testing.T, test func(t *testing.T, mode Mode)) {
	t.Helper()
	for _, mode := range []Mode{Strict, Coalesced, Lease} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			test(t, mode)
		})
	}
}

// kinds is a limit of every algorithm.
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

// pause keeps a server from deciding until resume is called, however slow the machine is. It waits until
// nothing is under way in some lanes.
func pause(tb testing.TB, client *redis.Client, idle ...*lane) (resume func()) {
	tb.Helper()
	for _, l := range idle {
		require.Eventually(tb, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return !l.busy
		}, busy, time.Millisecond)
	}
	require.NoError(tb, client.Do(context.Background(), "client", "pause", "600000", "write").Err())
	return func() {
		tb.Helper()
		require.NoError(tb, client.Do(context.Background(), "client", "unpause").Err())
	}
}

// queued reports whether a lane has a batch under way and so many requests that wait.
func queued(l *lane, n int) func() bool {
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.busy && len(l.queue) == n
	}
}

// silent is where connections are taken and nothing is said.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// startProxy starts a server behind a proxy.
func startProxy(t *testing.T) (*redistest.Proxy, *redis.Client) {
	t.Helper()
	srv := startServer(t)
	p := redistest.StartProxy(t, srv.Addr)
	return p, srv.client(t, func(o *redis.Options) { o.Addr = p.Addr })
}

// startCluster starts three servers that share the slots, and makes a client for them.
func startCluster(t *testing.T, change func(*redis.ClusterOptions), args ...string) (redisserver.Cluster, *redis.ClusterClient) {
	t.Helper()
	servers := redistest.StartCluster(t, args...)
	opt := &redis.ClusterOptions{Addrs: servers.Addrs(), ContextTimeoutEnabled: true}
	if change != nil {
		change(opt)
	}
	c := redis.NewClusterClient(opt)
	t.Cleanup(func() { _ = c.Close() })
	return servers, c
}

// leavesNothing has the test fail if a goroutine is left at its end that it started itself, or
// one that it started: all have its label.
func leavesNothing(t *testing.T) {
	t.Helper()
	ctx := pprof.WithLabels(context.Background(), pprof.Labels("fault", t.Name()))
	pprof.SetGoroutineLabels(ctx)
	t.Cleanup(func() {
		pprof.SetGoroutineLabels(context.Background())
		var left bytes.Buffer
		for range 400 { // a connection that is being made ends with its timeout
			left.Reset()
			_ = pprof.Lookup("goroutine").WriteTo(&left, 1)
			if !bytes.Contains(left.Bytes(), []byte(fmt.Sprintf("%q", t.Name()))) {
				return
			}
			time.Sleep(50 * time.Millisecond) // goroutines end by themselves, and cannot be waited for
		}
		t.Errorf("goroutines are left:\n%s", left.Bytes())
	})
}

// A wrapped is a client as one that measures.
type wrapped struct{ redis.UniversalClient }

func TestNewRefusesOtherClients(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]redis.UniversalClient{
		"nil": nil, "ring": redis.NewRing(&redis.RingOptions{}), "wrapped": &wrapped{},
	} {
		s, err := New(client, Config{})
		require.Nil(t, s, name)
		require.ErrorIs(t, err, core.ErrConfig, name)
	}
}

// A hook calls a function with the first of the commands that are sent together.
type hook func(ctx context.Context, cmd redis.Cmder)

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { h(ctx, cmd); return next(ctx, cmd) }
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { h(ctx, cmds[0]); return next(ctx, cmds) }
}

func TestClientWithTimeoutsKeepsItsHooks(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	var n atomic.Int64
	client.AddHook(hook(func(context.Context, redis.Cmder) { n.Add(1) }))
	take(t, open(t, newStore(t, client, Config{}), "t"), "k", ratelimit.PerHour(1), 1)
	require.Positive(t, n.Load())
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	r := &core.Registry{}
	client := redis.NewClient(&redis.Options{})
	first, err := New(client, Config{Registry: r})
	require.NoError(t, err)
	got, _ := core.Lookup[*Store](r, "default")
	require.True(t, got == first)
	_, err = New(client, Config{Registry: r})
	require.ErrorContains(t, err, "already registered")
	got, _ = core.Lookup[*Store](r, "default")
	require.True(t, got == first)
	other, err := New(client, Config{Registry: r, Name: "other"})
	require.NoError(t, err)
	require.NoError(t, first.Close())
	require.NoError(t, first.Close())
	_, ok := core.Lookup[*Store](r, "default")
	require.False(t, ok)
	got, _ = core.Lookup[*Store](r, "other")
	require.True(t, got == other)
}

// TestSilentServer: neither New nor Close waits for it, and the goroutine that makes connections ends with the store.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		client := server{&redisserver.Server{Addr: silent(t)}}.client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
		begun, ended := make(chan struct{}), make(chan struct{})
		client.AddHook(hook(func(ctx context.Context, cmd redis.Cmder) {
			if cmd.Name() == "ping" {
				close(begun)
				<-ctx.Done()
				close(ended)
			}
		}))
		began := time.Now()
		s := newStore(t, client, Config{Mode: mode, Timeout: 50 * time.Millisecond})
		l := localLimiter(t, s, ratelimit.PerHour(10))
		r, err := l.Take(t.Context(), "k", 1)
		require.NoError(t, err)
		require.True(t, r.Allowed, "by the share")
		<-begun
		require.NoError(t, l.Config().Store.Close())
		require.Less(t, time.Since(began), busy)
		<-ended
	})
}

func TestCloseWaitsForSentDecisions(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		proxy, client := startProxy(t)
		s := newStore(t, client, Config{Mode: mode})
		table := open(t, s, "t")
		take(t, table, "k", ratelimit.PerHour(9), 1)
		proxy.Delay(100 * time.Millisecond)
		require.Eventually(t, func() bool { return !sends(s) }, busy, time.Millisecond)
		ended := make(chan error, 1)
		go func() {
			_, err := table.Apply(context.WithoutCancel(t.Context()), "k", planned(t, table, ratelimit.PerHour(9)), limits.Op{Cost: 1})
			ended <- err
		}()
		if mode == Strict {
			require.Eventually(t, func() bool { return !s.ending.TryLock() || unlocked(s) }, patient, 50*time.Microsecond)
		} else {
			require.Eventually(t, func() bool { return sends(s) }, patient, 50*time.Microsecond)
		}
		require.NoError(t, s.Close())
		select {
		case err := <-ended:
			require.NoError(t, err)
		case <-time.After(patient):
			require.Fail(t, "Close did not wait")
		}
	})
}

// unlocked undoes a TryLock that has succeeded; it is false.
func unlocked(s *Store) bool { s.ending.Unlock(); return false }

// sends tells whether a batch is under way.
func sends(s *Store) bool {
	for i := range s.first.lanes {
		l := &s.first.lanes[i]
		l.mu.Lock()
		busy := l.busy && len(l.queue) == 0
		l.mu.Unlock()
		if busy {
			return true
		}
	}
	return false
}

// TestCloseLeavesNoGoroutine: however many limiters beat, that takes one goroutine.
func TestCloseLeavesNoGoroutine(t *testing.T) { //nolint:paralleltest // it counts goroutines
	for _, mode := range []Mode{Strict, Coalesced} {
		srv := startServer(t)
		warm := redis.NewClient(&redis.Options{Addr: srv.Addr}) // which starts what is there once
		require.NoError(t, warm.Ping(context.Background()).Err())
		require.NoError(t, warm.Close())
		before := runtime.NumGoroutine()
		client := redis.NewClient(&redis.Options{Addr: srv.Addr})
		s := newStore(t, client, Config{Mode: mode, Timeout: time.Second})
		for i := range 10 {
			open(t, s, fmt.Sprint(i)).(*table).Instances() //nolint:forcetypeassert // it is one of ours
		}
		require.LessOrEqual(t, runtime.NumGoroutine(), before+4, "one, and those of the client")
		table := open(t, s, "t")
		id := planned(t, table, ratelimit.PerHour(1_000_000))
		for range 2 {
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					for range 20 {
						_, _ = table.Apply(context.Background(), fmt.Sprint(i), id, limits.Op{Cost: 1})
					}
				})
			}
			wg.Wait()
			srv.Kill()
		}
		require.NoError(t, s.Close())
		require.NoError(t, s.Close(), "twice")
		_, err := s.Open("more")
		require.ErrorIs(t, err, core.ErrClosed)
		require.NoError(t, client.Close())
		for range 1000 {
			if runtime.NumGoroutine() <= before {
				break
			}
			time.Sleep(10 * time.Millisecond) // goroutines end by themselves, and cannot be waited for
		}
		if n := runtime.NumGoroutine(); n > before {
			_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
			t.Fatalf("%v: %d goroutines, there were %d", mode, n, before)
		}
	}
}

func (o *oddKeys) clear() {
	for i := range o {
		o[i].Store(0)
	}
}

// A value that the script for its limits cannot read takes two round trips the first time, in one Timeout.
func TestTimeoutOfTwoRoundTrips(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		proxy, client := startProxy(t)
		s := newStore(t, client, Config{Mode: mode, Timeout: 600 * time.Millisecond})
		table := open(t, s, "t")
		limit := ratelimit.PerHour(100)
		decides(t, table, "k", planned(t, table, limit.And(ratelimit.PerMinute(50)))) // one value of several limits
		take(t, table, "k", limit, 1)
		proxy.Delay(280 * time.Millisecond) // each way
		quiettest.Repeat(t, func() error {
			s.odd.clear() // otherwise it would take one, since it has been seen
			begun := time.Now()
			_, err := table.Apply(t.Context(), "k", planned(t, table, ratelimit.PerHour(9)), limits.Op{Cost: 1})
			require.Error(t, err)
			if took := time.Since(begun); took >= 1080*time.Millisecond {
				return fmt.Errorf("the timeout is 600ms: %v", took)
			}
			return nil
		})
	})
}

var errCaller = errors.New("the caller has no time")

// TestDeadlineOfTheCaller: the error is the cause of the context, whichever timer
// was first, and so the limiter does not let it pass.
func TestDeadlineOfTheCaller(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		proxy, client := startProxy(t)
		s := newStore(t, client, Config{Mode: mode})
		l, err := ratelimit.New(ratelimit.Config{Name: "l", Store: s, Limit: ratelimit.PerHour(1000)})
		require.NoError(t, err)
		_, err = l.Take(t.Context(), "k", 1)
		require.NoError(t, err)
		proxy.Delay(100 * time.Millisecond)
		var wg sync.WaitGroup
		for range 60 {
			wg.Go(func() {
				ctx, cancel := context.WithDeadlineCause(t.Context(), time.Now().Add(5*time.Millisecond), errCaller)
				defer cancel()
				r, err := l.Take(ctx, "k", 1)
				if !errors.Is(err, errCaller) || errors.Is(err, ratelimit.ErrStore) || r.Allowed {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
		wg.Wait()
		require.Zero(t, l.Stats().StoreErrors)
		require.Zero(t, s.Stats().Failed)
		require.Equal(t, breaker.Closed, s.first.guard.State())
	})
}

// TestTakeWithoutAConnectionIsUnsent: the deadline of the caller ends it, but it has
// certainly taken nothing, so it does not count at the share of the limit.
func TestTakeWithoutAConnectionIsUnsent(t *testing.T) {
	t.Parallel()
	s := newStore(t, server{&redisserver.Server{Addr: silent(t)}}.client(t), Config{Timeout: 100 * time.Millisecond})
	l := localLimiter(t, s, ratelimit.PerHour(10))
	for range 10 {
		ctx, cancel := context.WithDeadlineCause(t.Context(), time.Now().Add(10*time.Millisecond), errCaller)
		_, err := l.Take(ctx, "k", 1)
		cancel()
		require.ErrorIs(t, err, errCaller)
	}
	for range 10 {
		r, err := l.Take(t.Context(), "k", 1)
		require.NoError(t, err)
		require.True(t, r.Allowed)
	}
}

func TestContextEndsADecision(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		client := redis.NewClient(&redis.Options{Addr: replies(t, "", &atomic.Int64{}), ReadTimeout: time.Hour})
		defer func() { _ = client.Close() }()
		s, err := New(client, Config{Mode: mode, Timeout: time.Hour})
		require.NoError(t, err)
		l, err := ratelimit.New(ratelimit.Config{Name: "l", Store: s})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_, err = l.Take(ctx, "k", 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// A client that ignores the deadlines of contexts waits as long as the longest Timeout.
func TestLongTimeout(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: silent(t)})
	t.Cleanup(func() { _ = client.Close() })
	for timeout, want := range map[time.Duration]time.Duration{time.Second: longest, time.Minute: time.Minute} {
		copied, ok := newStore(t, client, Config{Timeout: timeout}).client.(*redis.Client)
		require.True(t, ok)
		require.Equal(t, want, copied.Options().ReadTimeout)
	}
}

// TestDefaultTimeout: a server that takes connections and says nothing keeps nobody longer than
// 50ms, which is what is promised to who configures nothing.
func TestDefaultTimeout(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = silent.Close() })
		client := server{&redisserver.Server{Addr: silent.Addr().String()}}.client(t)
		quiettest.Repeat(t, func() error {
			s, err := New(client, Config{Mode: mode})
			require.NoError(t, err)
			t.Cleanup(func() { _ = s.Close() })
			table := open(t, s, "t")
			id := planned(t, table, ratelimit.PerHour(10))
			var took []time.Duration
			for range failures / 2 { // a call that the machine keeps waiting can be two failures of Coalesced
				began := time.Now()
				_, err := table.Apply(t.Context(), "k", id, limits.Op{Cost: 1})
				took = append(took, time.Since(began))
				require.ErrorContains(t, err, "no reply in time")
			}
			slices.Sort(took)
			require.GreaterOrEqual(t, took[0], 50*time.Millisecond)
			if took[len(took)/2] > 500*time.Millisecond {
				return fmt.Errorf("the timeout is 50ms: %v", took)
			}
			return nil
		})
	})
}
