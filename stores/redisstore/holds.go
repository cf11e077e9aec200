package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
)

var errClosed = fmt.Errorf("redisstore: the store is closed: %w", core.ErrClosed)

// maxHolds is the number of holds of a name that are kept, here and in the server.
const maxHolds = 1 << 16

// holds are the known holds of a name, for one cooldown. They implement [cooldown.Table].
type holds struct {
	store    *Store
	name     string // of the set and the channel
	sender   string
	listener cooldown.Listener
	used     atomic.Bool // since the last reading
	stale    atomic.Bool // Sync must wait for the next reading

	order  sync.Mutex // held during a call of the listener, for the order of the calls
	mu     sync.Mutex
	known  map[string]known   // by id: the holds and releases in the server
	own    map[string]*report // by id: the holds of this cooldown
	unsent map[string]*report // by id: its holds and releases that the server must receive
	read   chan struct{}      // closed after the next reading, or if that fails
	keys   map[string]string
	ids    map[string]string // the reverse of keys: only with HashKeys

	channelOf  *redis.PubSub // with the subscription; guarded by the lock of sharer
	subscribed int           // to the channel; another number each time, 0 if it is not
	pushed     bool          // subscribed, and read since
	closed     bool

	// The rest belongs to the goroutine of sharer.
	lastRead time.Time
	lastUse  time.Time
	failures int       // in a row
	retry    time.Time // not before
}

// known is a hold or release in the server.
type known struct {
	till     int64     // when it ends, by the server's clock; 0 for a release
	until    time.Time // the same by ours
	released int64     // when it was released, by the server's clock
}

// A report is a hold or release of this cooldown, for the server.
type report struct {
	id      string
	left    int64 // that was sent, in µs
	until   time.Time
	release bool
	next    *report // a hold that ends before the one that this releases
	undone  fact    // a release that was learned before the reply
}

// OpenCooldown opens the holds of the cooldowns of that name. It sends nothing. From the first
// use on, two goroutines and a connection learn the holds of the other processes, until the
// cooldown or the store is closed. Sync waits for [Config].Timeout at most: at the first use,
// and where the server does not push, at the first use after ten idle seconds.
func (s *Store) OpenCooldown(name string, l cooldown.Listener) (cooldown.Table, error) {
	t := &holds{
		store: s, name: s.cfg.prefix() + ":{cooldowns}:" + escape(name, "", false), sender: rand.Text(), listener: l,
		known: map[string]known{}, own: map[string]*report{}, unsent: map[string]*report{}, read: make(chan struct{}),
	}
	if s.cfg.HashKeys {
		t.keys, t.ids = map[string]string{}, map[string]string{}
	}
	t.stale.Store(true)
	if !s.sharing.add(t) {
		return nil, errClosed
	}
	return t, nil
}

// Sync waits until the holds were read.
func (t *holds) Sync(ctx context.Context, key string) {
	if !t.used.Load() {
		t.used.Store(true)
		t.store.sharing.rouse()
	}
	if t.stale.Load() {
		t.await(ctx)
	}
	if t.keys != nil {
		t.meet(key)
	}
}

// await waits for the next reading, and after Timeout lets all calls pass until then.
func (t *holds) await(ctx context.Context) {
	t.mu.Lock()
	read, over := t.read, t.closed
	t.mu.Unlock()
	if over {
		return
	}
	timer := time.NewTimer(t.store.cfg.timeout())
	defer timer.Stop()
	select {
	case <-read:
	case <-timer.C:
		t.stale.Store(false)
	case <-ctx.Done():
	}
}

// meet remembers the key that a hash stands for, and holds it if a hold of the hash is known.
func (t *holds) meet(key string) {
	t.mu.Lock()
	if _, met := t.ids[key]; met || t.closed {
		t.mu.Unlock()
		return
	}
	if len(t.ids) >= maxHolds {
		clear(t.ids)
		clear(t.keys)
	}
	id := t.id(key)
	key = strings.Clone(key)
	t.ids[key], t.keys[id] = id, key
	k := t.known[id]
	t.mu.Unlock()
	if k.till == 0 {
		return
	}
	t.listener.Held(key, time.Until(k.until))
	t.mu.Lock()
	released := t.known[id].released > 0
	t.mu.Unlock()
	if released { // meanwhile
		t.listener.Released(key)
	}
}

// id returns the name of a key in the server.
func (t *holds) id(key string) string {
	if t.store.cfg.HashKeys {
		return escape(key, "", true)
	}
	return "=" + key
}

// key returns the key of a name, if it is known.
func (t *holds) key(id string) (key string, ok bool) {
	if key, ok = strings.CutPrefix(id, "="); !ok {
		key, ok = t.keys[id]
	}
	return key, ok
}

// Hold sends a hold to the server.
func (t *holds) Hold(key string, left time.Duration) { t.report(key, left, false) }

// Release sends a release to the server.
func (t *holds) Release(key string, left time.Duration) { t.report(key, left, true) }

func (t *holds) report(key string, left time.Duration, release bool) {
	t.mu.Lock()
	if id, now := t.id(key), time.Now(); !t.closed && left > 0 && t.room(id, now) {
		r := &report{id: id, until: now.Add(left), release: release}
		t.own[id] = r
		if release {
			delete(t.own, id)
		}
		t.queue(r)
	}
	t.mu.Unlock()
	t.store.sharing.rouse()
}

// queue has a report sent, after a release that it does not make superfluous.
func (t *holds) queue(r *report) {
	if old := t.unsent[r.id]; old != nil && old.release && old.until.After(r.until) {
		if r.release {
			r.until = old.until
		} else {
			old.next = r
			return
		}
	}
	t.unsent[r.id] = r
}

// room reports whether there is room for a report. With more than maxHolds, a hold is not shared.
func (t *holds) room(id string, now time.Time) bool {
	if t.own[id] == nil && len(t.own)+len(t.unsent) >= 2*maxHolds {
		t.expire(now)
	}
	return t.own[id] != nil || len(t.own)+len(t.unsent) < 2*maxHolds
}

// expire forgets holds and releases that are over.
func (t *holds) expire(now time.Time) {
	over := func(_ string, r *report) bool { return !now.Before(r.until) }
	maps.DeleteFunc(t.own, over)
	maps.DeleteFunc(t.unsent, over)
	maps.DeleteFunc(t.known, func(_ string, k known) bool { return !now.Before(k.until) })
}

// Close ends the use of the table. Holds that are not sent yet are sent once more.
func (t *holds) Close() {
	t.mu.Lock()
	over := t.closed
	if t.closed = true; !over {
		t.done()
	}
	t.mu.Unlock()
	t.store.sharing.drop()
}

// done lets those pass that wait for a reading, and later ones.
func (t *holds) done() {
	t.stale.Store(false)
	close(t.read)
	t.read = make(chan struct{})
}

// A fact is a hold or release in the server, at a time of the server.
type fact struct {
	id       string
	till, at int64
	release  bool
}

// learn adopts facts, and passes new ones to the listener.
func (t *holds) learn(facts ...fact) {
	t.order.Lock()
	defer t.order.Unlock()
	var news []func()
	t.mu.Lock()
	for _, f := range facts {
		if call := t.adopt(f); call != nil && !t.closed {
			news = append(news, call)
		}
	}
	t.mu.Unlock()
	callAll(news)
}

// stepBack is how far the server's clock may go back for a hold to be older than a release.
const stepBack = int64(time.Minute / time.Microsecond)

// adopt records a fact. It returns the call of the listener for a new one, or nil.
func (t *holds) adopt(f fact) (call func()) {
	k, r, now := t.known[f.id], t.unsent[f.id], time.Now()
	key, ok := t.key(f.id)
	left := time.Duration(min(f.till-f.at, never.Microseconds())) * time.Microsecond
	switch {
	case r != nil && f.release: // sent decides which is later
		r.undone = f
		return nil
	case r != nil && r.release: // the report is later
		return nil
	case f.release && (k.till == 0 || k.till > f.till):
		return nil
	case f.release:
		delete(t.own, f.id)
		t.known[f.id] = known{released: f.at, until: now.Add(left)}
		call = func() { t.listener.Released(key) }
	case f.till == k.till, f.till < k.till && !now.Add(left).After(k.until), // the clock can have gone back
		f.at <= k.released && f.at > k.released-stepBack:
		return nil
	default:
		if len(t.known) >= maxHolds {
			t.expire(now)
		}
		if len(t.known) < maxHolds {
			t.known[f.id] = known{till: f.till, until: now.Add(left)}
		}
		call = func() { t.listener.Held(key, left) }
	}
	if !ok {
		return nil
	}
	return call
}

// missing has the holds of this cooldown sent again that the server has lost, or knows as shorter.
func (t *holds) missing(facts []fact) {
	left := make(map[string]int64, len(facts))
	for _, f := range facts {
		if !f.release {
			left[f.id] = f.till - f.at
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, r := range t.own {
		if t.unsent[id] == nil && left[id] < time.Until(r.until).Microseconds() {
			t.unsent[id] = r
		}
	}
}
