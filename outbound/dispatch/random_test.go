package dispatch_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/outbound/dispatch"
)

var seeds = flag.Uint64("dispatch.seeds", 30, "number of random runs") //nolint:gochecknoglobals // a flag

// A world is a vendor with connections, and a model of the cooldowns, by account. That of the vendor
// is "".
type world struct {
	t    *testing.T
	what string

	mu      sync.Mutex
	random  *rand.Rand
	start   time.Time
	scopes  map[string]*cooling
	open    map[int]string
	dials   int
	running int
	closed  map[int]int
}

// cooling is the model of one cooldown.
type cooling struct {
	until, began time.Time
	probes       map[int]struct{} // attempts in flight that began after it, until one has succeeded
	open         bool             // one has succeeded
}

func (w *world) upTo(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n + 1)
}

func (w *world) one(in int) bool { return w.upTo(in-1) == 0 }

func (w *world) sleep(ms int) { time.Sleep(time.Duration(w.upTo(ms)) * time.Millisecond) }

// misbehave ends the goroutine, or panics, at times.
func (w *world) misbehave(in int) {
	switch w.upTo(2 * in) {
	case 0:
		panic("told")
	case 1:
		runtime.Goexit()
	}
}

func (w *world) dial(ctx context.Context, key string) (int, error) {
	if w.one(10) {
		w.sleep(3000) // it ignores ctx
	} else if err := sleep(ctx, time.Duration(w.upTo(20))*time.Millisecond); err != nil {
		return 0, err
	}
	w.misbehave(60)
	if w.one(20) {
		return 0, errors.New("no route")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dials++
	w.open[w.dials] = key
	return w.dials, nil
}

func (w *world) close(key string, conn int) {
	w.mu.Lock()
	if w.closed[conn]++; w.closed[conn] > 1 || w.open[conn] != key {
		w.t.Errorf("%s: connection %d of %s is closed %d times", w.what, conn, key, w.closed[conn])
	}
	delete(w.open, conn)
	w.mu.Unlock()
	w.misbehave(60)
}

// scope returns the model of a cooldown.
func (w *world) scope(account string) *cooling {
	s := w.scopes[account]
	if s == nil {
		s = &cooling{open: true}
		w.scopes[account] = s
	}
	return s
}

// begin checks that an attempt may be sent.
func (w *world) begin(key string, conn, n, capacity int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open[conn] != key {
		w.t.Errorf("%s: connection %d of %q is used for %q", w.what, conn, w.open[conn], key)
	}
	if w.running++; w.running > capacity {
		w.t.Errorf("%s: %d attempts in flight", w.what, w.running)
	}
	for _, account := range []string{"", key} {
		s := w.scope(account)
		if left := time.Until(s.until); left > 0 && time.Now().After(s.began) {
			w.t.Errorf("%s: after %v, an attempt of %q during a cooldown of %q for another %v", w.what, time.Since(w.start), key, account, left)
		}
		if !s.open {
			if s.probes[n] = struct{}{}; len(s.probes) > 1 {
				w.t.Errorf("%s: after %v, %d attempts probe %q", w.what, time.Since(w.start), len(s.probes), account)
			}
		}
	}
}

// held notes a cooldown that begins or is extended.
func (w *world) held(_ context.Context, info dispatch.Info) {
	w.mu.Lock()
	s := w.scope(info.Account)
	if time.Now().After(s.until) {
		*s = cooling{began: time.Now(), probes: map[int]struct{}{}}
	}
	s.until = info.Until
	w.mu.Unlock()
	w.misbehave(200)
}

// end notes the answer to an attempt.
func (w *world) end(key string, n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	_, refused := classify(err)
	for _, account := range []string{"", key} {
		s := w.scope(account)
		_, probe := s.probes[n]
		delete(s.probes, n)
		if probe && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && (!refused || account == "") {
			s.open = true // any answer shows that it answers
		}
	}
}

func (w *world) attempt(ctx context.Context, key string, conn, capacity int) (err error) {
	w.mu.Lock()
	w.dials++ // any number that is not in use
	n := w.dials
	w.mu.Unlock()
	w.begin(key, conn, n, capacity)
	defer func() { w.end(key, n, err) }()
	if err = sleep(ctx, time.Duration(w.upTo(40))*time.Millisecond+1); err != nil {
		return err
	}
	w.misbehave(60)
	switch w.upTo(30) {
	case 0, 1:
		err = &limitError{time.Duration(1+w.upTo(2000)) * time.Millisecond, dispatch.ScopeVendor}
	case 2, 3:
		err = &limitError{time.Duration(1+w.upTo(2000)) * time.Millisecond, dispatch.ScopeAccount}
	case 4:
		err = errors.New("500")
	}
	return err
}

func (w *world) config() dispatch.Config[string, int] {
	hook := func(context.Context, dispatch.Info) { w.misbehave(200) }
	cfg := dispatch.Config[string, int]{
		Capacity: 1 + w.upTo(6), Dial: w.dial, Close: w.close, Attempts: 1 + w.upTo(5), Pad: -1,
		DialTimeout: time.Second, IdleTime: time.Duration(1+w.upTo(500)) * time.Millisecond,
		Account:  func(key string) string { return key },
		Classify: func(err error) (dispatch.Limited, bool) { w.misbehave(200); return classify(err) },
		Hooks:    dispatch.Hooks{Held: w.held, Resumed: hook, Waiting: hook, Connected: hook, Returned: hook, GaveUp: hook},
	}
	if w.one(2) {
		cfg.Healthy = func(string, int) bool { w.misbehave(200); return !w.one(20) }
	}
	if w.one(3) {
		cfg.Limiter = core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(1, 5*time.Millisecond, 1), MaxWait: -1}))
	}
	if w.one(3) {
		cfg.MaxQueue = 1 + w.upTo(20)
	}
	return cfg
}

// call makes one call, or iterates over a stream.
func (w *world) call(d *dispatch.Dispatcher[string, int], capacity int) {
	defer func() { _ = recover() }()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	switch w.upTo(3) {
	case 0:
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+w.upTo(3000))*time.Millisecond)
		defer cancel()
	case 1:
		defer time.AfterFunc(time.Duration(w.upTo(3000))*time.Millisecond, cancel).Stop()
	}
	key := string(rune('a' + w.upTo(4)))
	if !w.one(5) {
		_, _ = dispatch.Do(ctx, d, key, func(ctx context.Context, conn int) (int, error) {
			return 0, w.attempt(ctx, key, conn, capacity)
		})
		return
	}
	pages := 1 + w.upTo(4)
	for _, err := range dispatch.Stream(ctx, d, key, 1, func(ctx context.Context, conn, at int) (dispatch.Page[int, int], error) {
		return dispatch.Page[int, int]{Rows: []int{at}, Next: at + 1, More: at < pages}, w.attempt(ctx, key, conn, capacity)
	}) {
		w.sleep(20)
		w.misbehave(60)
		if err != nil || w.one(20) {
			return
		}
	}
}

// TestRandomRunsKeepTheGate: no attempt is sent during a cooldown, one alone after it, each connection
// is closed once, and nothing is left, whatever functions of the user do. In some runs, two processes
// share their cooldowns.
func TestRandomRunsKeepTheGate(t *testing.T) {
	t.Parallel()
	for seed := range *seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomRun(t, seed) })
		})
	}
}

// peers is a store of cooldowns whose messages take a while.
type peers struct {
	w      *world
	mu     sync.Mutex
	tables map[string][]*peer
}

type peer struct {
	*peers

	name  string
	order sync.Mutex
	cooldown.Listener
}

func (p *peers) OpenCooldown(name string, l cooldown.Listener) (cooldown.Table, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := &peer{peers: p, name: name, Listener: l}
	p.tables[name] = append(p.tables[name], t)
	return t, nil
}

func (t *peer) Sync(context.Context, string) {}

func (t *peer) Hold(key string, left time.Duration) {
	until := time.Now().Add(left)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, other := range t.tables[t.name] {
		if other != t {
			time.AfterFunc(time.Duration(t.w.upTo(5))*time.Millisecond, func() {
				other.order.Lock()
				defer other.order.Unlock()
				other.Held(key, time.Until(until))
			})
		}
	}
}

func (t *peer) Release(string, time.Duration) {}

func (t *peer) Close() {}

func randomRun(t *testing.T, seed uint64) {
	t.Helper()
	w := newWorld(t, seed, 0)
	cfg := w.config()
	worlds := []*world{w}
	if w.one(3) {
		cfg.Store = &peers{w: w, tables: map[string][]*peer{}}
		worlds = append(worlds, newWorld(t, seed, 1))
	}
	var wg sync.WaitGroup
	for _, w := range worlds {
		wg.Go(func() { w.run(cfg) })
	}
	wg.Wait()
}

func newWorld(t *testing.T, seed, process uint64) *world {
	t.Helper()
	return &world{
		t: t, what: fmt.Sprintf("seed %d, process %d", seed, process), random: rand.New(rand.NewPCG(seed, 17+process)), start: time.Now(), //nolint:gosec // a test
		scopes: map[string]*cooling{}, open: map[int]string{}, closed: map[int]int{},
	}
}

// run makes calls for a while.
func (w *world) run(cfg dispatch.Config[string, int]) {
	own := w.config()
	cfg.Dial, cfg.Close, cfg.Classify, cfg.Hooks, cfg.Limiter = own.Dial, own.Close, own.Classify, own.Hooks, own.Limiter
	d := core.Must(dispatch.New(cfg))
	var wg sync.WaitGroup
	for range 1 + w.upTo(30) {
		wg.Go(func() {
			for time.Since(w.start) < 20*time.Second {
				var one sync.WaitGroup // it can end its goroutine
				one.Go(func() { w.call(d, cfg.Capacity) })
				one.Wait()
				w.sleep(200)
			}
		})
	}
	wg.Wait()
	time.Sleep(time.Minute) // of dials that ignore their contexts, and idle connections
	t, s := w.t, d.Stats()
	require.Positive(t, s.Attempts, w.what)
	require.Equal(t, s.Calls, s.Succeeded+s.Failed+s.GaveUp+s.Canceled, w.what)
	require.Zero(t, s.Active+s.InFlight+s.Waiting+s.Connections, "%s: %+v", w.what, s)
	w.mu.Lock()
	require.Empty(t, w.open, w.what)
	w.mu.Unlock()
	require.NoError(t, d.Close(t.Context()))
}
