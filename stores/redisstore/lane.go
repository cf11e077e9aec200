package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/limits"
)

const (
	lanes    = 2       // connections in use at once, if there is only one server
	maxBatch = 256     // requests that go out together
	maxQueue = 1 << 16 // requests that wait for a lane
	overlaps = 8       // batches of a lane that are under way at once, to a distant server
)

var errQueue = unsent(errors.New("redisstore: 65536 decisions wait to be sent"))

// A lane sends together the requests that arrived while its last batch was under way. It has a goroutine while there is
// something to send, and no timer.
type lane struct {
	store *Store
	node  *node
	mu    sync.Mutex
	queue []*request
	busy  bool
}

// laneOf returns the lane of a key: a key always has the same lane, which keeps the order. If there are several
// servers, each has one lane: two would make the batches smaller, and each request in a batch is a command of its own
// anyway.
func (s *Store) laneOf(key string) *lane {
	at := s.nodeOf(key)
	if !s.single {
		return &at.lanes[0]
	}
	return &at.lanes[s.hash(key)%lanes]
}

// A waiter is what the caller of a request in a lane waits for.
type waiter struct {
	done  chan struct{}
	timer *time.Timer
}

func newWaiter() *waiter { return &waiter{make(chan struct{}, 1), time.NewTimer(time.Hour)} }

// enter reports whether the lane is idle. Then it is the caller's until leave, so that a request that meets no other needs no goroutine.
// To a distant server batches overlap, so no caller has the lane.
func (l *lane) enter() bool {
	if l.node.distant() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy {
		return false
	}
	l.busy = true
	return true
}

// leave begins to send what has arrived since enter.
func (l *lane) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy = len(l.queue) > 0; l.busy {
		l.store.wg.Go(l.work)
	}
}

// apply sends a request, and waits until it is decided, until Timeout, or until ctx ends. If nobody waits any more, the permits of the
// request are refunded.
func (l *lane) apply(ctx context.Context, req *request) (limits.Result, bool, error) {
	if l.tries() {
		return limits.Result{}, false, ErrUnavailable
	}
	w, _ := l.store.waiters.Get().(*waiter)
	if w == nil {
		w = newWaiter()
	}
	w.timer.Reset(l.store.cfg.timeout())
	req.wait = w
	if err := l.add(req); err != nil {
		return limits.Result{}, false, err
	}
	var ended error
	select {
	case <-w.done:
	case <-w.timer.C:
		ended = context.DeadlineExceeded
	case <-ctx.Done():
		ended = ctx.Err()
	}
	if ended != nil {
		switch err := explain(l.node.named(ended), true); {
		case req.state.CompareAndSwap(waiting, abandoned):
			return limits.Result{}, false, unsent(err)
		case req.state.CompareAndSwap(sent, abandoned):
			return limits.Result{}, false, err
		}
		<-w.done
	}
	w.timer.Stop()
	l.store.waiters.Put(w)
	return req.r, req.ok, req.err
}

// tries reports whether a batch is under way to a node that was unavailable. Other requests must not wait for that
// batch.
func (l *lane) tries() bool {
	if l.node.guard.State() == breaker.Closed {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.busy
}

func (l *lane) add(it *request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.store.closed.Load():
		return limits.ErrClosed
	case len(l.queue) >= maxQueue:
		return errQueue
	}
	l.queue = append(l.queue, it)
	if !l.busy {
		l.busy = true
		l.store.wg.Go(l.work)
	}
	return nil
}

// drop ends all waiting items with err.
func (l *lane) drop(err error) {
	l.mu.Lock()
	queue := l.queue
	l.queue = nil
	l.mu.Unlock()
	for _, it := range queue {
		it.end(limits.Result{}, false, err)
	}
}

// work sends batches until no item waits.
func (l *lane) work() {
	for l.waits() {
		trip, err := l.node.admit(context.Background())
		if err != nil {
			l.drop(err)
			continue
		}
		batch := l.next()
		if l.node.distant() {
			l.overlap(trip, batch)
		} else {
			l.send(trip, batch)
		}
	}
}

func (l *lane) send(trip trip, batch []*request) {
	ctx, cancel := context.WithTimeout(context.Background(), l.store.cfg.timeout())
	defer cancel()
	trip.exchange(ctx, context.Background(), batch)
}

// overlap sends a batch, and returns when the next one is due: when the replies have arrived, or after a part of
// Timeout. So no batch waits so long for the previous one that too little time is left for its own reply.
func (l *lane) overlap(trip trip, batch []*request) {
	ended := make(chan struct{})
	l.store.wg.Go(func() {
		defer close(ended)
		l.send(trip, batch)
	})
	due := time.NewTimer(l.store.cfg.timeout() / overlaps)
	defer due.Stop()
	select {
	case <-ended:
	case <-due.C:
	}
}

// waits reports whether there is something to send. Otherwise it marks the lane as idle.
func (l *lane) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 && l.queue[0].state.Load() == abandoned {
		l.queue = l.queue[1:]
	}
	l.busy = len(l.queue) > 0
	return l.busy
}

// next takes the next batch from the queue, without items whose callers have left.
func (l *lane) next() []*request {
	l.mu.Lock()
	defer l.mu.Unlock()
	var batch []*request
	for len(l.queue) > 0 && len(batch) < maxBatch {
		if it := l.queue[0]; it.state.CompareAndSwap(waiting, sent) {
			batch = append(batch, it)
		}
		l.queue = l.queue[1:]
	}
	return batch
}
