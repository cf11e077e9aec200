package redisstore

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Instances are counted by beats: an instance without a beat for a life is not counted.
const (
	beatEvery = 2 * time.Second
	beatLife  = 10 * time.Second
)

// instances counts the stores that have a limiter with [ratelimit.Local], and pushes what such
// limiters let through while the server was unavailable: in one goroutine, from the first decision of one on.
type instances struct {
	store       *Store
	every, life time.Duration // fields for tests
	id          string
	n           atomic.Int64 // at the last beat; 0 before the first
	rank        atomic.Int64 // of this instance, from 0
	ahead       atomic.Int64 // server's clock minus the local clock, in µs
	low         time.Time    // since when all beats returned less than n; zero if they do not
	due         *time.Ticker // of beats

	mu     sync.Mutex
	locals []*local
	stop   context.CancelFunc // nil before the first decision
	begun  atomic.Bool
	wake   chan struct{} // to push at once
}

// add adds a table that decides while the server is unavailable. It sends nothing.
func (in *instances) add(l *local) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !slices.Contains(in.locals, l) {
		in.locals = append(in.locals, l)
	}
}

// any reports whether there is such a table.
func (in *instances) any() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.locals) > 0
}

// begin begins to count, with the first decision. It does not wait for the first beat.
func (in *instances) begin() {
	if in.begun.Load() {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stop != nil || in.store.closed.Load() {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	in.id, in.stop = rand.Text(), stop
	in.begun.Store(in.store.begin(func() { in.run(ctx) }))
}

// key is the name of the set of instances.
func (in *instances) key() string { return in.store.cfg.prefix() + ":{instances}" }

// close ends the beats; the store waits for the goroutine.
func (in *instances) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stop != nil {
		in.stop()
	}
}

// count returns the number of instances that share a limit, as known here: 1 at least.
func (in *instances) count() int64 { return max(1, in.n.Load()) }

// uptime is the time here, in µs, and now that of the server, which is the same for all.
func (in *instances) uptime() int64 { return time.Since(in.store.first.base).Microseconds() }
func (in *instances) now() int64    { return in.uptime() + in.ahead.Load() }

// pushSoon starts a push of the debts.
func (in *instances) pushSoon() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

func (in *instances) run(ctx context.Context) {
	in.due = time.NewTicker(in.every)
	defer in.due.Stop()
	up := in.beat(ctx) || ctx.Err() != nil // the server might be available, if Close came before its reply
	wake := in.wake
	for {
		if up && !in.push(ctx) {
			wake = nil // decisions do not retry it: the next beat does
		}
		select {
		case <-in.due.C:
			up, wake = in.beat(ctx) || up && ctx.Err() != nil, in.wake
		case <-wake:
			up = true
		case <-ctx.Done():
			in.leave(context.WithoutCancel(ctx), up)
			return
		}
	}
}

// leave pushes the debts, if the server was available, and removes this instance from the set.
func (in *instances) leave(ctx context.Context, up bool) {
	if up {
		ctx, cancel := context.WithTimeout(ctx, in.store.cfg.timeout())
		in.push(ctx)
		cancel()
	}
	_, _, _ = in.send(ctx, 0)
}

// beat registers this instance as alive, and reads the number of instances. A lower number applies
// only after a life of lower numbers: after a data loss, the first instance is not alone.
func (in *instances) beat(ctx context.Context) bool {
	n, rank, err := in.send(ctx, in.life)
	now := time.Now()
	switch {
	case err != nil:
		in.low = time.Time{}
		return false
	case n < in.n.Load() && in.low.IsZero():
		in.low = now
	case n >= in.n.Load() || now.Sub(in.low) >= in.life:
		in.n.Store(n)
		in.rank.Store(rank)
		in.low = time.Time{}
	}
	return true
}

// beatInTime sends a beat if it is due: during a long push.
func (in *instances) beatInTime(ctx context.Context) {
	select {
	case <-in.due.C:
		in.beat(ctx)
	default:
	}
}

// send sends one beat; if life is 0, the instance leaves.
func (in *instances) send(ctx context.Context, life time.Duration) (n, rank int64, err error) {
	s := in.store
	if life > 0 && in.n.Load() == 0 {
		if err := in.connect(ctx); err != nil {
			return 0, 0, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.timeout())
	defer cancel()
	req := &request{script: beatScript(), key: in.key(), args: []any{in.id, number(life.Microseconds())}}
	reply, err := s.exchange(ctx, context.WithoutCancel(ctx), req)
	switch {
	case err != nil:
		return 0, 0, err
	case len(reply) != 3:
		return 0, 0, errReply
	}
	in.ahead.Store(reply[0] - in.uptime())
	return reply[1], reply[2], nil
}

// connect waits for a connection before the first beat, for up to DialTimeout: until then this
// instance has the whole limit.
func (in *instances) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, in.store.cfg.dialTimeout())
	defer cancel()
	for {
		to := in.store.nodeOf(in.key()) //nolint:contextcheck // see nodeOf
		if _, err := to.connect(ctx); err != nil {
			return err
		}
		to.release(nil)                     //nolint:contextcheck // a connection is made for all
		if !in.store.routes(to, in.key()) { //nolint:contextcheck // see nodeOf
			return nil
		}
	}
}

// push pushes the debts of all tables, and reports whether all could be pushed.
func (in *instances) push(ctx context.Context) bool {
	in.mu.Lock()
	locals := in.locals
	in.mu.Unlock()
	all := true
	for _, l := range locals {
		all = l.pushAll(ctx) == nil && all
	}
	return all
}
