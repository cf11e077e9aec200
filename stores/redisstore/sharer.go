package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/failover"
)

const (
	pollEvery    = 100 * time.Millisecond // holds are read if they are not pushed
	refreshEvery = time.Second            // if they are, in case a message was lost
	idleAfter    = 10 * time.Second       // without use
	mostReports  = 256                    // holds that are sent together
)

// again is the delay after a failure.
var again = backoff.Exponential{Delay: pollEvery, Max: time.Second, Jitter: 0.5} //nolint:gochecknoglobals // a constant

//nolint:gochecknoglobals // constants
var (
	holdScript  = sync.OnceValue(func() *redis.Script { return redis.NewScript(newScript("time.lua", "hold.lua").text) })
	holdsScript = sync.OnceValue(func() *redis.Script { return redis.NewScript(newScript("time.lua", "holds.lua").text) })
)

// A sharer sends and reads the holds of all tables, in one goroutine while there are tables that
// were used. Another one receives messages.
type sharer struct {
	store *Store
	wake  chan struct{} // there is work

	mu      sync.Mutex
	tables  []*holds
	running bool
	pushes  *redis.PubSub // nil without a connection
	via     *node         // of pushes
	epoch   int           // of the last subscription
}

func newSharer(s *Store) *sharer { return &sharer{store: s, wake: make(chan struct{}, 1)} }

// add adds a table, unless the store is closed.
func (h *sharer) add(t *holds) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.store.closed.Load() {
		return false
	}
	h.tables = append(h.tables, t)
	return true
}

func (h *sharer) all() []*holds {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.tables)
}

// rouse has the goroutine look at the tables.
func (h *sharer) rouse() {
	h.store.ending.RLock()
	defer h.store.ending.RUnlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.store.closed.Load() {
		return
	}
	if !h.running {
		h.running = true
		keep(&h.store.wg, h.run)
	}
	signal(h.wake)
}

// drop has the goroutine remove closed tables, if there is one.
func (h *sharer) drop() {
	h.mu.Lock()
	running := h.running
	h.mu.Unlock()
	if running {
		h.rouse()
	} else {
		h.remove()
	}
}

// keep runs f in a goroutine, and again if a hook has ended that.
func keep(all *sync.WaitGroup, f func()) {
	all.Go(func() {
		ended := false
		defer func() {
			if !ended {
				keep(all, f)
			}
		}()
		f()
		ended = true
	})
}

// callAll makes all calls, also if a hook in one of them ends the goroutine.
func callAll(calls []func()) {
	defer func() {
		if len(calls) > 0 { // a call did not return
			callAll(calls)
		}
	}()
	for len(calls) > 0 {
		call := calls[0]
		calls = calls[1:]
		call()
	}
}

// run works until no table is left or the store is closed.
func (h *sharer) run() {
	ctx, stop := context.WithCancel(h.store.ctx)
	var listener sync.WaitGroup
	defer listener.Wait()
	defer stop()
	keep(&listener, func() { h.store.listen(ctx, h.receive) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-h.wake:
		case <-timer.C:
		case <-ctx.Done():
			h.last()
			return
		}
		next := h.round(ctx)
		if h.idle() {
			return
		}
		timer.Reset(next)
	}
}

// signal wakes the goroutine that waits for a channel of one element, or the next that does.
func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// idle reports that no table is left, so that the goroutine ends.
func (h *sharer) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running = len(h.tables) > 0
	return !h.running
}

// never is longer than any program runs.
const never = 365 * 24 * time.Hour

// round does the work that is due. It returns the time until something is due again.
func (h *sharer) round(ctx context.Context) time.Duration {
	now := time.Now()
	h.subscribe(false)
	next := never
	for _, t := range h.all() {
		due := t.retry.Sub(now)
		if due <= 0 {
			var err error
			if due, err = t.work(ctx, now); err != nil {
				if ctx.Err() != nil {
					break
				}
				h.fail(t, err)
				due = max(0, time.Until(t.retry))
			}
		}
		next = min(next, due)
	}
	h.remove() //nolint:contextcheck // see Receive
	return next
}

// fail lets all calls pass until the table can be read again. If the server does not answer, no
// other table is tried either.
func (h *sharer) fail(t *holds, err error) {
	if isServerError(err) && !failover.Refused(err) || errors.Is(err, errReply) {
		t.fail(err)
		return
	}
	h.subscribe(true)
	for _, t := range h.all() {
		t.fail(err)
	}
}

func (t *holds) fail(err error) {
	t.failures++
	t.retry = time.Now().Add(again.Next(t.failures, 0))
	t.mu.Lock()
	t.done()
	over := t.closed
	t.mu.Unlock()
	if t.failures == 1 && !over {
		t.notify(func() { t.listener.Failed(err) })
	}
}

// remove drops the tables that are closed, unless they have something to send and it can be sent.
func (h *sharer) remove() {
	h.mu.Lock()
	pushes := h.pushes
	var gone []string
	h.tables = slices.DeleteFunc(h.tables, func(t *holds) bool {
		t.mu.Lock()
		defer t.mu.Unlock()
		ends := t.closed && (t.failures > 0 || len(t.unsent) == 0)
		if ends && pushes != nil && t.channelOf == pushes {
			gone = append(gone, t.name)
		}
		return ends
	})
	gone = slices.DeleteFunc(gone, func(name string) bool {
		return slices.ContainsFunc(h.tables, func(t *holds) bool { return t.name == name })
	})
	h.mu.Unlock()
	if len(gone) > 0 {
		_ = pushes.Unsubscribe(over, gone...) // if it fails, so does receive
	}
}

// last sends the remaining holds when the store is closed, and lets all calls pass from then on.
func (h *sharer) last() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.store.ctx), h.store.cfg.timeout())
	defer cancel()
	for _, t := range h.all() {
		if t.failures == 0 {
			_ = t.send(ctx)
		}
		t.mu.Lock()
		t.closed = true
		t.done()
		t.mu.Unlock()
	}
}

// notify calls a function of the listener, in the order of the calls.
func (t *holds) notify(f func()) {
	t.order.Lock()
	defer t.order.Unlock()
	f()
}
