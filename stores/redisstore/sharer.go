package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core/backoff"
)

const (
	pollEvery    = 100 * time.Millisecond // holds are read if they are not pushed
	refreshEvery = time.Second            // if they are, in case a message was lost
	idleAfter    = 10 * time.Second       // without use
	mostReports  = 256                    // holds that are sent together
)

// again is the delay after a failure.
var again = backoff.Exponential{Initial: pollEvery, Max: time.Second, Jitter: 0.5} //nolint:gochecknoglobals // a constant

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

	warned atomic.Bool // that there are no messages
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
	select {
	case h.wake <- struct{}{}:
	default:
	}
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

// run works until no table is left or the store is closed.
func (h *sharer) run() {
	ctx, stop := context.WithCancel(h.store.ctx)
	var listener sync.WaitGroup
	defer listener.Wait()
	defer stop()
	keep(&listener, func() { h.listen(ctx) })
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
	h.subscribe(false) //nolint:contextcheck // see nodeOf
	next := never
	for _, t := range h.all() {
		due := t.retry.Sub(now)
		if due <= 0 {
			var err error
			if due, err = t.work(ctx, now); err != nil {
				if ctx.Err() != nil {
					break
				}
				h.fail(t, err) //nolint:contextcheck // see nodeOf
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
	if isServerError(err) || errors.Is(err, errReply) {
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
	t.retry = time.Now().Add(again.Delay(t.failures, 0))
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

// work sends the reports of a table, and reads if that is due. It returns the time until it is due.
func (t *holds) work(ctx context.Context, now time.Time) (time.Duration, error) {
	if err := t.send(ctx); err != nil {
		return 0, err
	}
	t.mu.Lock()
	subscribed, pushed, over := t.subscribed, t.pushed, t.closed
	active := len(t.own)+len(t.known) > 0
	t.mu.Unlock()
	if over {
		return never, nil
	}
	every := pollEvery
	if pushed {
		every = refreshEvery
	}
	due := t.lastRead.Add(every)
	if used := t.used.Load(); used && !now.Before(due) {
		t.used.Store(false)
		t.lastUse = now
	} else if !used && !active && t.failures == 0 && now.Sub(t.lastUse) >= idleAfter && (pushed || subscribed == 0) {
		t.stale.Store(!pushed)
		return never, nil
	}
	if now.Before(due) && (pushed || subscribed == 0) && !t.stale.Load() {
		return due.Sub(now), nil
	}
	if err := t.readAll(ctx, subscribed); err != nil {
		return 0, err
	}
	return every, nil
}

// send sends the reports of a table.
func (t *holds) send(ctx context.Context) error {
	for {
		batch := t.batch()
		if len(batch) == 0 {
			return nil
		}
		args := []any{t.store.time(), t.sender, number(maxHolds)}
		for _, r := range batch {
			what := "hold"
			if r.release {
				what = "release"
			}
			r.left = time.Until(r.until).Microseconds() + 1 // rounded up
			args = append(args, what, number(r.left), r.id)
		}
		reply, err := t.run(ctx, holdScript(), args)
		if err != nil {
			return err
		}
		if len(reply) != 1+len(batch) {
			return errReply
		}
		t.sent(batch, micros(reply[0]), reply[1:])
	}
}

// sent records the reply of the server.
func (t *holds) sent(batch []*report, at int64, ends []any) {
	var news []fact // longer holds of the server, and releases since
	t.mu.Lock()
	for i, r := range batch {
		if t.unsent[r.id] != r { // there is a newer one
			continue
		}
		delete(t.unsent, r.id)
		if r.next != nil {
			t.unsent[r.id] = r.next
		}
		switch till := micros(ends[i]); {
		case r.release:
			t.known[r.id] = known{released: at, until: r.until}
			t.lastRead = time.Time{} // so it is read now: holds of others were not adopted until here
		case till > at+r.left:
			news = append(news, fact{r.id, till, at, false})
		case till > t.known[r.id].till:
			t.known[r.id] = known{till: till, until: r.until}
		}
		if r.undone.at > at {
			news = append(news, r.undone)
			t.lastRead = time.Time{} // as above
		}
	}
	t.mu.Unlock()
	t.learn(news...)
}

// batch returns reports to send, as many as one request can have.
func (t *holds) batch() (batch []*report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, r := range t.unsent {
		if !time.Now().Before(r.until) {
			delete(t.unsent, id)
			continue
		}
		if batch = append(batch, r); len(batch) == mostReports {
			break
		}
	}
	return batch
}

// readAll reads all holds.
func (t *holds) readAll(ctx context.Context, subscribed int) error {
	reply, err := t.run(ctx, holdsScript(), []any{t.store.time()})
	if err != nil {
		return err
	}
	if len(reply) != 2 {
		return errReply
	}
	list, ok := reply[1].([]any)
	if !ok || len(list)%2 != 0 {
		return errReply
	}
	at := micros(reply[0])
	facts := make([]fact, 0, len(list)/2)
	for ; len(list) > 0; list = list[2:] {
		if id, ok := list[0].(string); ok {
			facts = append(facts, factOf(id, micros(list[1]), at))
		}
	}
	t.learn(facts...)
	t.missing(facts)
	t.lastRead = time.Now()
	t.mu.Lock()
	t.expire(t.lastRead)
	t.pushed = subscribed != 0 && subscribed == t.subscribed
	t.done()
	t.mu.Unlock()
	if t.failures > 0 {
		t.failures = 0
		t.notify(t.listener.Recovered)
	}
	return nil
}

// factOf reads a name of the set of hold.lua.
func factOf(id string, till, at int64) fact {
	id, release := strings.CutPrefix(id, "-")
	return fact{id, till, at, release}
}

// micros reads a time of a reply; 0 if it is none.
func micros(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case string:
		f, _ := strconv.ParseFloat(v, 64)
		return int64(f)
	}
	return 0
}

// opTimeout is the least time for a script of the goroutine, for which no call waits.
const opTimeout = time.Second

// run runs a script on the set, over a connection that is ready.
func (t *holds) run(ctx context.Context, is *redis.Script, args []any) (reply []any, err error) {
	s := t.store
	ctx, cancel := context.WithTimeout(ctx, max(opTimeout, s.cfg.timeout()))
	defer cancel()
	to := s.nodeOf(t.name) //nolint:contextcheck // see nodeOf
	for {
		if _, err := to.connect(ctx); err != nil {
			return nil, err
		}
		if !s.routes(to, t.name) { //nolint:contextcheck // see nodeOf
			break
		}
		to.release(nil)       //nolint:contextcheck // a connection is made for all
		to = s.nodeOf(t.name) //nolint:contextcheck // see nodeOf
	}
	exec := func(ctx context.Context) ([]any, error) {
		return is.Run(ctx, s.client, []string{t.name}, args...).Slice()
	}
	if s.alien {
		reply, err = inTime(ctx, s, exec)
	} else {
		reply, err = exec(ctx)
	}
	err = to.named(err)
	to.release(err) //nolint:contextcheck // as above
	if err != nil {
		return nil, explain(err)
	}
	return reply, nil
}
