package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core/cooldown"
)

var errClosed = fmt.Errorf("redisstore: the store is closed: %w", cooldown.ErrClosed)

// maxHolds is the number of holds of a name that are kept, here and in the server.
const maxHolds = 1 << 16

// holds are what one cooldown knows of the holds of its name. They implement [cooldown.Table].
type holds struct {
	store    *Store
	name     string // of the set and the channel
	sender   string
	listener cooldown.Listener
	used     atomic.Bool // since the last reading
	stale    atomic.Bool // Sync must wait for the next reading

	order sync.Mutex // while the listener is called: after another call has ended
	mu    sync.Mutex
	known map[string]known // by id: what the server has, as of the last news
	mine  map[string]*mine // by id: what this cooldown says
	read  chan struct{}    // closed after the next reading, or if that fails
	keys  map[string]string
	ids   map[string]string // the reverse of keys: only with HashKeys

	asked      *redis.PubSub // that was told to subscribe; guarded by the lock of sharer
	subscribed int           // to the channel; another number each time, 0 if it is not
	pushed     bool          // subscribed, and read since
	closed     bool

	lastRead time.Time // of the goroutine of sharer
	lastUse  time.Time // of the goroutine of sharer
	failing  bool      // of the goroutine of sharer
}

// A known hold or release has been in the server.
type known struct {
	till     int64     // when it ends, by the server's clock; 0 for a release
	until    time.Time // the same by ours
	released int64     // when it was released, by the server's clock
}

// A mine is a hold or release that the server is told.
type mine struct {
	id      string
	left    int64 // that was sent, in µs
	until   time.Time
	release bool
	sent    bool
}

// OpenCooldown opens the holds of the cooldowns of that name. It sends nothing. From the first
// use on, two goroutines and a connection learn the holds of the other processes, until the
// cooldown or the store is closed. Sync waits for [Config].Timeout at most: at the first use,
// and where the server does not push, at the first use after ten idle seconds.
func (s *Store) OpenCooldown(name string, l cooldown.Listener) (cooldown.Table, error) {
	t := &holds{
		store: s, name: s.cfg.prefix() + ":{cooldowns}:" + escape(name, "", false), sender: rand.Text(), listener: l,
		known: map[string]known{}, mine: map[string]*mine{}, read: make(chan struct{}),
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
	t.ids[key], t.keys[id] = id, key
	k := t.known[id]
	t.mu.Unlock()
	if k.till > 0 {
		t.listener.Held(key, time.Until(k.until))
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

// Hold has the server told.
func (t *holds) Hold(key string, left time.Duration) { t.say(key, left, false) }

// Release has the server told.
func (t *holds) Release(key string, left time.Duration) { t.say(key, left, true) }

func (t *holds) say(key string, left time.Duration, release bool) {
	t.mu.Lock()
	if id, now := t.id(key), time.Now(); !t.closed && left > 0 && t.room(id, now) {
		t.mine[id] = &mine{id: id, until: now.Add(left), release: release}
	}
	t.mu.Unlock()
	t.store.sharing.rouse()
}

// room reports whether mine can take an id. Of more than maxHolds, the others are not told.
func (t *holds) room(id string, now time.Time) bool {
	if t.mine[id] != nil || len(t.mine) < maxHolds {
		return true
	}
	t.expire(now)
	return len(t.mine) < maxHolds
}

// expire forgets what is over.
func (t *holds) expire(now time.Time) {
	for id, m := range t.mine {
		if !now.Before(m.until) {
			delete(t.mine, id)
		}
	}
	for id, k := range t.known {
		if !now.Before(k.until) {
			delete(t.known, id)
		}
	}
}

// Close ends the use of the table. What was said is still sent, once.
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

// learn takes facts, and tells the listener what is new.
func (t *holds) learn(facts ...fact) {
	t.order.Lock()
	defer t.order.Unlock()
	var news []func()
	t.mu.Lock()
	for _, f := range facts {
		if tell := t.adopt(f); tell != nil && !t.closed {
			news = append(news, tell)
		}
	}
	t.mu.Unlock()
	for _, tell := range news {
		tell()
	}
}

// stepBack is how far the server's clock may go back for a hold to be older than a release.
const stepBack = int64(time.Minute / time.Microsecond)

// adopt takes a fact. It returns what the listener is told, if it is new.
func (t *holds) adopt(f fact) (tell func()) {
	k, m, now := t.known[f.id], t.mine[f.id], time.Now()
	key, ok := t.key(f.id)
	left := time.Duration(min(f.till-f.at, never.Microseconds())) * time.Microsecond
	switch {
	case m != nil && !m.sent && (f.release || m.release): // what is said here is later
		return nil
	case f.release && (k.till == 0 || k.till > f.till):
		return nil
	case f.release:
		delete(t.mine, f.id)
		t.known[f.id] = known{released: f.at, until: now.Add(left)}
		tell = func() { t.listener.Released(key) }
	case f.till <= k.till || f.at <= k.released && f.at > k.released-stepBack:
		return nil
	default:
		if len(t.known) >= maxHolds {
			t.expire(now)
		}
		if len(t.known) < maxHolds {
			t.known[f.id] = known{till: f.till, until: now.Add(left)}
		}
		tell = func() { t.listener.Held(key, left) }
	}
	if !ok {
		return nil
	}
	return tell
}

// missing has the holds of this cooldown told again that the server has lost.
func (t *holds) missing(facts []fact) {
	has := make(map[string]bool, len(facts))
	for _, f := range facts {
		has[f.id] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, m := range t.mine {
		if m.sent && !has[id] {
			m.sent = false
		}
	}
}
