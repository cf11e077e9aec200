package redisstore

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
)

// How instances are counted: a beat each so often, and one that is not heard for a life is gone.
const (
	beatEvery = 2 * time.Second
	beatLife  = 10 * time.Second
)

// instances counts the stores that have a limiter with [ratelimit.Local], and pushes what such
// limiters let through while the server was away: in one goroutine, from the first of them on.
type instances struct {
	store       *Store
	every, life time.Duration // fields for tests
	id          string
	n           atomic.Int64 // at the last beat; 0 before the first
	since       time.Time    // when the first beat was heard of those without a miss

	mu     sync.Mutex
	locals []*local
	stop   context.CancelFunc // nil before the first limiter
	first  chan struct{}      // closed after the first beat
	wake   chan struct{}      // to push at once
}

// add begins to count, and returns after the first beat: within Timeout.
func (in *instances) add(l *local) {
	in.mu.Lock()
	in.locals = append(in.locals, l)
	if in.stop == nil && !in.store.closed.Load() {
		ctx, stop := context.WithCancel(context.Background())
		in.id, in.stop, in.first = rand.Text(), stop, make(chan struct{})
		in.store.wg.Go(func() { in.run(ctx) })
	}
	first := in.first
	in.mu.Unlock()
	if first != nil {
		<-first
	}
}

// close ends the beats; the store waits for the goroutine.
func (in *instances) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stop != nil {
		in.stop()
	}
}

// count is how many instances share a limit, as far as is known: 1 at least.
func (in *instances) count() int64 { return max(1, in.n.Load()) }

// pushSoon has the debts pushed now.
func (in *instances) pushSoon() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

func (in *instances) run(ctx context.Context) {
	ticker := time.NewTicker(in.every)
	defer ticker.Stop()
	up := in.beat(ctx)
	close(in.first)
	for {
		if up {
			in.push(ctx)
		}
		select {
		case <-ticker.C:
			up = in.beat(ctx)
		case <-in.wake:
			up = true
		case <-ctx.Done():
			_, _ = in.send(context.WithoutCancel(ctx), 0)
			return
		}
	}
}

// beat tells that this one is alive, and learns how many are. A number that is lower holds only
// after a life without a miss: when the server comes back empty, the first is not alone.
func (in *instances) beat(ctx context.Context) bool {
	n, err := in.send(ctx, in.life)
	now := time.Now()
	switch {
	case err != nil:
		in.since = time.Time{}
		return false
	case in.since.IsZero():
		in.since = now
	}
	if n >= in.n.Load() || now.Sub(in.since) >= in.life {
		in.n.Store(n)
	}
	return true
}

// send sends one beat; with no life it is the last.
func (in *instances) send(ctx context.Context, life time.Duration) (n int64, err error) {
	s := in.store
	ctx, cancel := context.WithTimeout(ctx, s.cfg.timeout())
	defer cancel()
	key := s.cfg.prefix() + ":{instances}"
	permit, err := s.admit(ctx, s.nodeOf(key)) //nolint:contextcheck // see nodeOf
	if err != nil {
		return 0, err
	}
	outcome := core.Ignored
	defer func() { permit.Done(outcome) }()
	reply, err := s.run(ctx, &request{script: beatScript(), key: key, args: []any{in.id, number(life.Microseconds())}})
	outcome = outcomeOf(err)
	switch {
	case err != nil:
		return 0, err
	case len(reply) != 2:
		return 0, errReply
	}
	return reply[1], nil
}

// push pushes what all tables owe.
func (in *instances) push(ctx context.Context) {
	in.mu.Lock()
	locals := in.locals
	in.mu.Unlock()
	for _, l := range locals {
		if l.pushAll(ctx) != nil {
			return
		}
	}
}
