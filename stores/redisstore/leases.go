package redisstore

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	mostSent  = 256     // leases that are sent together
	mostEnded = 1 << 16 // leases in ended; more end by themselves
)

// leases are the leases of a process. One goroutine renews them and ends those that were not ended
// at once; another one receives the turns of waiters.
type leases struct {
	store   *Store
	prefix  string // of the keys
	sender  string
	channel string
	serial  atomic.Uint64
	pushed  atomic.Bool // subscribed to the channel
	warned  sync.Once   // that there are no messages
	wake    chan struct{}

	mu        sync.Mutex
	held      map[string]*holder
	waiting   map[string]chan struct{}
	ended     []*holder // leases and waiters that the server does not know as ended yet
	running   bool
	listening bool
	renewal   time.Time // when the next one is due; zero without a lease
	failures  int       // in a row
}

func newLeases(s *Store) *leases {
	l := &leases{store: s, prefix: s.cfg.prefix() + ":{bulkheads}:", sender: rand.Text()[:16], wake: make(chan struct{}, 1), held: map[string]*holder{}, waiting: map[string]chan struct{}{}}
	l.channel = l.prefix + l.sender
	return l
}

// lasts returns the end of a lease that begins at a time or later, a tenth earlier: a call whose
// lease is lost has that time to end.
func (l *leases) lasts(from time.Time) time.Time { return from.Add(l.store.cfg.lease() / 10 * 9) }

// hold has a lease renewed. The caller has locked ending of the store.
func (l *leases) hold(h *holder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[h.id] = h
	if due := time.Now().Add(l.store.cfg.lease() / 3); l.renewal.IsZero() || due.Before(l.renewal) {
		l.renewal = due
		l.rouse()
	}
}

// release ends a lease, now or later.
func (l *leases) release(h *holder) {
	l.mu.Lock()
	delete(l.held, h.id)
	l.mu.Unlock()
	if l.end(h) != nil {
		l.leave(h)
	}
}

func (l *leases) end(h *holder) error {
	l.store.ending.RLock()
	defer l.store.ending.RUnlock()
	if l.store.closed.Load() {
		return nil
	}
	_, err := l.send(context.Background(), "end", 0, h)
	return err
}

// leave has a lease or a waiter ended by the goroutine.
func (l *leases) leave(h *holder) {
	l.store.ending.RLock()
	defer l.store.ending.RUnlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store.closed.Load() || len(l.ended) >= mostEnded {
		return
	}
	h.over = time.Now().Add(l.store.cfg.lease())
	l.ended = append(l.ended, h)
	l.rouse()
}

// rouse has the goroutine look. Both locks are held.
func (l *leases) rouse() {
	if !l.running {
		l.running = true
		keep(&l.store.wg, l.run)
	}
	signal(l.wake)
}

// run renews and ends leases until the store is closed. Leases that are left end by themselves.
func (l *leases) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	ctx := l.store.ctx
	for {
		select {
		case <-l.wake:
		case <-timer.C:
		case <-ctx.Done():
			_ = l.endAll(context.WithoutCancel(ctx))
			l.closed()
			return
		}
		next, err := never, l.endAll(ctx)
		if err != nil {
			next = pollEvery
		}
		l.mu.Lock()
		due := never
		if !l.renewal.IsZero() {
			due = time.Until(l.renewal)
		}
		l.mu.Unlock()
		if due <= 0 {
			due = l.renew(ctx)
		}
		timer.Reset(min(next, due))
	}
}

// endAll ends the leases and waiters of ended.
func (l *leases) endAll(ctx context.Context) error {
	for {
		l.mu.Lock()
		n := min(len(l.ended), mostSent)
		batch := slices.Clone(l.ended[:n])
		l.mu.Unlock()
		if n == 0 {
			return nil
		}
		_, err := l.send(ctx, "end", 0, batch...)
		l.mu.Lock()
		if err == nil || time.Now().After(batch[n-1].over) {
			l.ended = slices.Delete(l.ended, 0, n)
		}
		l.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// renew renews all leases. It returns the time until the next renewal.
func (l *leases) renew(ctx context.Context) time.Duration {
	l.mu.Lock()
	rest := slices.Collect(maps.Values(l.held))
	l.mu.Unlock()
	next := l.store.cfg.lease() / 3
	var failed error
	for n := mostSent; len(rest) > 0; {
		batch := rest[:min(len(rest), n)]
		begun := time.Now()
		reply, err := l.keep(ctx, batch)
		if len(batch) > 1 && isServerError(err) && !transient(err) {
			n = 1 // it can be due to the value of one key
			continue
		}
		rest = rest[len(batch):]
		if err != nil {
			failed = err
		}
		for i, h := range batch {
			switch {
			case !l.isHeld(h): // the renewal can have come after its end
				l.leave(h)
			case err == nil && reply[1+2*i] == 1:
				h.end, h.told = l.lasts(begun), false
			case err == nil:
				l.lost(h, nil)
			case ctx.Err() == nil && !h.told && time.Now().After(h.end):
				l.lost(h, err)
			case !h.told:
				next = min(next, max(time.Until(h.end), time.Millisecond))
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if failed == nil {
		l.failures = 0
	} else {
		l.failures++
		next = min(next, again.Next(l.failures, 0))
	}
	if len(l.held) == 0 {
		l.renewal = time.Time{}
		return never
	}
	l.renewal = time.Now().Add(next)
	return next
}

func (l *leases) isHeld(h *holder) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[h.id] == h
}

// keep renews some leases: not after the end of any, if that is still to come.
func (l *leases) keep(ctx context.Context, batch []*holder) ([]int64, error) {
	now := time.Now()
	first := now.Add(never)
	for _, h := range batch {
		if h.end.After(now) && h.end.Before(first) {
			first = h.end
		}
	}
	within, cancel := context.WithDeadline(ctx, first)
	defer cancel()
	return l.send(within, "keep", 0, batch...)
}

// lost reports that a call has lost its permits: err is nil if others can have them.
func (l *leases) lost(h *holder, err error) {
	if h.told = true; err == nil {
		l.mu.Lock()
		delete(l.held, h.id)
		l.mu.Unlock()
	}
	h.Lost(err)
}

// closed reports to all calls that their leases are not renewed any more.
func (l *leases) closed() {
	l.mu.Lock()
	all := l.held
	l.held = map[string]*holder{}
	l.mu.Unlock()
	calls := make([]func(), 0, len(all))
	for _, h := range all {
		calls = append(calls, func() { h.Lost(errEnded) })
	}
	callAll(calls)
}

// wait registers a waiter for its turn.
func (l *leases) wait(h *holder) (turn <-chan struct{}) {
	l.store.ending.RLock()
	defer l.store.ending.RUnlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	ch := make(chan struct{}, 1)
	l.waiting[h.id] = ch
	if !l.listening && !l.store.closed.Load() {
		l.listening = true
		keep(&l.store.wg, func() {
			l.store.listen(l.store.ctx, &l.warned, "calls that wait for permits of bulkheads ask", l.receive)
		})
	}
	return ch
}

func (l *leases) unwait(h *holder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, h.id)
}

// turn wakes the waiter of an id, if there is one.
func (l *leases) turn(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	signal(l.waiting[id])
}

// turnAll wakes all waiters.
func (l *leases) turnAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, turn := range l.waiting {
		signal(turn)
	}
}

// receive receives the turns of waiters over one connection until it fails. Without them, waiters ask
// more often.
func (l *leases) receive(ctx context.Context) (subscribed bool, err error) {
	pushes, _, err := l.store.subscribe(ctx, l.channel)
	if err != nil {
		return false, err
	}
	defer func() {
		l.pushed.Store(false)
		_ = pushes.Close()
		l.turnAll()
	}()
	err = pump(ctx, pushes, func(m any) {
		switch m := m.(type) {
		case *redis.Subscription:
			subscribed = true
			l.pushed.Store(true)
			l.turnAll() // to register with the channel
		case *redis.Message:
			if m.Payload != "" { // otherwise the server asks whether the process is there
				l.turn(m.Payload)
			}
		}
	})
	return subscribed, err
}
