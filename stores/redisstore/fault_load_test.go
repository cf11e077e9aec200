package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/stores/share"
)

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

// A caller is one of a load, who asks for one key, and what became of it.
type caller struct {
	key    string
	policy ratelimit.FailurePolicy
	took   []time.Duration
	failed int
	waits  time.Duration // the longest that it was told to wait
}

// A load is callers that go on through a fault, some by a limiter that denies what cannot be
// decided, some by one that allows it, and if the test says so some by one that decides it itself.
type load struct {
	t       *testing.T
	timeout time.Duration
	callers []*caller
	mu      sync.Mutex   // of the callers
	gate    sync.RWMutex // of whom no call may meet
	done    chan struct{}
	wg      sync.WaitGroup

	limiters [3]*ratelimit.Limiter // by their policy
	granted  [3]atomic.Int64
	decided  atomic.Int64 // by the server, and not for those with a share
	failed   atomic.Int64 // denied or allowed without a decision
	unsent   atomic.Int64 // of these, those that were not sent
}

const (
	callersOfALoad = 16
	sharing        = 4                // callers of one that decides itself
	busy           = 30 * time.Second // longer than that, a call hangs
)

// startLoad has callers take from keys, each under a limit.
func startLoad(t *testing.T, s *Store, limit ratelimit.Limit, keys ...string) *load {
	t.Helper()
	l := &load{t: t, timeout: s.cfg.Timeout, done: make(chan struct{})} // as it was configured
	l.limit(s, ratelimit.Deny, limit)
	l.limit(s, ratelimit.Allow, limit)
	for i := range callersOfALoad {
		l.start(&caller{key: keys[i/2%len(keys)], policy: []ratelimit.FailurePolicy{ratelimit.Deny, ratelimit.Allow}[i%2]})
	}
	t.Cleanup(l.stop)
	return l
}

// share has more callers take from a key, which decide themselves while the server is unavailable.
func (l *load) share(s *Store, limit ratelimit.Limit, key string) {
	l.t.Helper()
	shared := core.Must(share.New(s, share.Config{}))
	l.t.Cleanup(func() { _ = shared.Close() })
	l.limit(shared, ratelimit.Local, limit)
	for range sharing {
		l.start(&caller{key: key, policy: ratelimit.Local})
	}
}

// limit makes the limiter with a policy, of its name.
func (l *load) limit(s ratelimit.Store, policy ratelimit.FailurePolicy, limit ratelimit.Limit) {
	l.t.Helper()
	made, err := ratelimit.New(ratelimit.Config{Name: string(policy), Limit: limit, Store: s, OnStoreError: policy})
	require.NoError(l.t, err)
	l.limiters[index(policy)] = made
}

func (l *load) start(c *caller) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.callers = append(l.callers, c)
	l.wg.Go(func() {
		for l.call(c) {
		}
	})
}

// call is one call; false at the end.
func (l *load) call(c *caller) bool {
	l.gate.RLock()
	began := time.Now()
	r, err := l.limiters[index(c.policy)].Take(context.Background(), c.key, 1)
	l.gate.RUnlock()
	took := time.Since(began)
	switch {
	case errors.Is(err, ratelimit.ErrStore) && c.policy == ratelimit.Deny:
		l.failed.Add(1)
		if errors.Is(err, ErrUnavailable) {
			l.unsent.Add(1)
		}
	case err != nil:
		l.t.Errorf("%s, %v: %v", c.key, c.policy, err)
	case c.policy == ratelimit.Local:
		l.granted[index(c.policy)].Add(r.Permits)
		if r.Limit == 0 || r.Allowed != (r.Permits == 1) {
			l.t.Errorf("%s: it was not decided: %+v", c.key, r)
		}
	case r.Limit == 0:
		l.failed.Add(1)
	default:
		l.decided.Add(1)
		l.granted[index(c.policy)].Add(r.Permits)
	}
	l.mu.Lock()
	if err != nil || r.Limit == 0 {
		c.failed++
	}
	c.took = append(c.took, took)
	c.waits = max(c.waits, r.RetryAfter)
	l.mu.Unlock()
	select {
	case <-l.done:
		return false
	case <-time.After(3 * time.Millisecond): // as a service would not spin
		return true
	}
}

// stop ends the callers.
func (l *load) stop() {
	select {
	case <-l.done:
		return
	default:
		close(l.done)
	}
	l.wg.Wait()
}

// until waits until a number has grown by so many, and returns how long that took.
func (l *load) until(n *atomic.Int64, more int64) time.Duration {
	l.t.Helper()
	began, want := time.Now(), n.Load()+more
	require.Eventually(l.t, func() bool { return n.Load() >= want }, 30*time.Second, time.Millisecond)
	return time.Since(began)
}

// waits is the longest that a caller was told to wait.
func (l *load) waits() (most time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.callers {
		most = max(most, c.waits)
	}
	return most
}

// left is what one may take of the first key; -1 if that cannot be said.
func (l *load) left() int64 {
	r, err := l.limiters[index(ratelimit.Deny)].Take(context.Background(), l.callers[0].key, 0)
	if err != nil {
		return -1
	}
	return r.Remaining
}

// round waits until each of some callers has been answered so often since spans was asked last.
func (l *load) round(of func(*caller) bool, often int) {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range l.callers {
			if of(c) && len(c.took) < often {
				return false
			}
		}
		return true
	}, 30*time.Second, time.Millisecond)
}

// spans returns how long calls of some callers took since this was asked last, in order.
func (l *load) spans(of func(*caller) bool) (all []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.callers {
		if of(c) {
			all = append(all, c.took...)
			c.took = nil
		}
	}
	slices.Sort(all)
	return append(all, 0)[:max(1, len(all))]
}

// failedOn is how many calls of some callers have failed.
func (l *load) failedOn(of func(*caller) bool) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.callers {
		if of(c) {
			n += c.failed
		}
	}
	return n
}

// inTime fails if a call hung, and returns a text of how long they took.
func (l *load) inTime() string {
	l.t.Helper()
	all := l.spans(func(*caller) bool { return true })
	require.Less(l.t, all[len(all)-1], l.timeout+busy)
	return spread(all)
}

func spread(all []time.Duration) string {
	at := func(percent int) time.Duration {
		return all[min(len(all)-1, len(all)*percent/100)].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("%d calls, half within %v, 99%% within %v, all within %v", len(all), at(50), at(99), at(100))
}

// within fails if more was granted on a key than is bound by the server.
func (l *load) within(bound int64) {
	l.t.Helper()
	for _, policy := range []ratelimit.FailurePolicy{ratelimit.Allow, ratelimit.Deny} {
		require.LessOrEqual(l.t, l.granted[index(policy)].Load(), bound, "%v", policy)
	}
}

// shareWithin fails if the limiter with a share granted more than bound. A take under way, and one whose
// reply was lost, is charged to the share, so not one permit is granted twice.
func (l *load) shareWithin(bound int64) {
	l.t.Helper()
	require.LessOrEqual(l.t, l.granted[index(ratelimit.Local)].Load(), bound, "of a share")
}

func index(p ratelimit.FailurePolicy) int {
	return slices.Index([]ratelimit.FailurePolicy{ratelimit.Allow, ratelimit.Deny, ratelimit.Local}, p)
}
