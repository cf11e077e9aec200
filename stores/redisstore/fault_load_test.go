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

	"github.com/gresil/gresil/core/ratelimit"
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
		for range 1000 { // a connection that is being made ends with its timeout
			left.Reset()
			_ = pprof.Lookup("goroutine").WriteTo(&left, 1)
			if !bytes.Contains(left.Bytes(), []byte(fmt.Sprintf("%q", t.Name()))) {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("goroutines are left:\n%s", left.Bytes())
	})
}

// A caller is one of a load, who asks for one key, and what became of it.
type caller struct {
	key    string
	deny   bool // else what cannot be decided is allowed
	took   []time.Duration
	failed int
	waits  time.Duration // the longest that it was told to wait
}

// A load is callers that go on through a fault, some by a limiter that denies what cannot be
// decided, some by one that allows it.
type load struct {
	t       *testing.T
	timeout time.Duration
	callers []*caller
	mu      sync.Mutex   // of the callers
	gate    sync.RWMutex // of whom no call may meet
	done    chan struct{}
	wg      sync.WaitGroup

	denying, allowing *ratelimit.Limiter
	granted           [2]atomic.Int64 // by those that deny, and by those that allow
	decided           atomic.Int64
	failed            atomic.Int64 // denied or allowed without a decision
	away              atomic.Int64 // of these, those that were not sent
}

const (
	callersOfALoad = 16
	busy           = 2 * time.Second // how much longer all may take on a machine that others use
)

// startLoad has callers take from keys, each under a limit.
func startLoad(t *testing.T, s *Store, limit ratelimit.Limit, keys ...string) *load {
	t.Helper()
	l := &load{t: t, timeout: s.cfg.timeout(), done: make(chan struct{})}
	made := func(name string, policy ratelimit.FailurePolicy) *ratelimit.Limiter {
		made, err := ratelimit.New(ratelimit.Config{Name: name, Limit: limit, Store: s, OnStoreError: policy})
		require.NoError(t, err)
		return made
	}
	l.denying, l.allowing = made("denying", ratelimit.Deny), made("allowing", ratelimit.Allow)
	for i := range callersOfALoad {
		c := &caller{key: keys[i/2%len(keys)], deny: i%2 == 0}
		l.callers = append(l.callers, c)
		l.wg.Go(func() {
			for l.call(c) {
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

// call is one call; false at the end.
func (l *load) call(c *caller) bool {
	limiter, place := l.allowing, 1
	if c.deny {
		limiter, place = l.denying, 0
	}
	l.gate.RLock()
	began := time.Now()
	r, err := limiter.Take(context.Background(), c.key, 1)
	l.gate.RUnlock()
	took := time.Since(began)
	switch {
	case errors.Is(err, ratelimit.ErrStore) && c.deny:
		l.failed.Add(1)
		if errors.Is(err, ErrAway) {
			l.away.Add(1)
		}
	case err != nil:
		l.t.Errorf("%s, deny %v: %v", c.key, c.deny, err)
	case r.Limit == 0:
		l.failed.Add(1)
	default:
		l.decided.Add(1)
		l.granted[place].Add(r.Granted)
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
	case <-time.After(time.Millisecond): // as a service would not spin
		return true
	}
}

func (l *load) stop() {
	select {
	case <-l.done:
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
	r, err := l.denying.Take(context.Background(), l.callers[0].key, 0)
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

// inTime fails if a call took longer than it may, and returns a text of how long they took.
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

// within fails if more was granted on a key than is bound.
func (l *load) within(bound int64) {
	l.t.Helper()
	for i := range l.granted {
		require.LessOrEqual(l.t, l.granted[i].Load(), bound)
	}
}
