// Package cooldowntest tests implementations of [cooldown.Store].
package cooldowntest

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gresil/gresil/core/cooldown"
)

// patience is how long a hold may take to the other store.
const patience = 10 * time.Second

// Run tests a store. connect returns two stores that share their holds, as two processes do; the
// test that calls Run closes them. They may be shared by the tests, which use different names.
func Run(t *testing.T, connect func(t *testing.T) (a, b cooldown.Store)) {
	t.Helper()
	for name, test := range map[string]func(*suite){
		"a hold reaches the other":             reaches,
		"the later end counts":                 later,
		"names and keys are distinct":          distinct,
		"a first Sync learns of the holds":     late,
		"a release reaches the other":          release,
		"a later hold survives a release":      survives,
		"tables of one store share":            within,
		"a closed table is silent":             closed,
		"many keys at once lose nothing":       many,
		"a hold that is over is not shared":    over,
		"a Listener may use and close a table": reenter,
	} {
		t.Run(name, func(t *testing.T) {
			a, b := connect(t)
			test(&suite{t, a, b})
		})
	}
}

type suite struct {
	*testing.T

	a, b cooldown.Store
}

// A process has a table, and remembers the calls of its listener.
type process struct {
	cooldown.Table

	t     *testing.T
	mu    sync.Mutex
	until map[string]time.Time
	calls int
}

func (s *suite) open(store cooldown.Store, name string) *process {
	s.Helper()
	p := &process{t: s.T, until: map[string]time.Time{}}
	set := func(key string, until time.Time) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.calls++
		p.until[strings.Clone(key)] = until
	}
	var err error
	p.Table, err = store.OpenCooldown(s.Name()+name, cooldown.Listener{
		Held:     func(key string, left time.Duration) { set(key, time.Now().Add(left)) },
		Released: func(key string) { set(key, time.Time{}) },
		Failed:   func(err error) { s.Error("Failed:", err) }, Recovered: func() {},
	})
	if err != nil {
		s.Fatal("OpenCooldown:", err)
	}
	s.Cleanup(p.Close)
	return p
}

// both opens a name in both stores.
func (s *suite) both() (a, b *process) {
	s.Helper()
	a, b = s.open(s.a, ""), s.open(s.b, "")
	a.Sync(context.Background(), "")
	b.Sync(context.Background(), "")
	return a, b
}

func (p *process) held(key string) (left time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Until(p.until[key])
}

// await waits until a key is held for a time, or, if that is 0, is not.
func (p *process) await(key string, want time.Duration) {
	p.t.Helper()
	const near = time.Minute
	begun := time.Now()
	for {
		p.Sync(context.Background(), key)
		left := p.held(key)
		if want == 0 && left <= 0 || want > 0 && left > want-near && left <= want+near {
			return
		}
		if time.Since(begun) > patience {
			p.t.Fatalf("the key is held for %v, want %v", left, want)
		}
		time.Sleep(time.Millisecond)
	}
}

func reaches(s *suite) {
	a, b := s.both()
	begun := time.Now()
	a.Hold("k", time.Hour)
	b.await("k", time.Hour)
	if end := begun.Add(time.Hour); b.until["k"].Before(end.Add(-time.Millisecond)) {
		s.Errorf("it ends %v too early there", end.Sub(b.until["k"]))
	}
	if a.calls > 0 {
		s.Error("a table has learned its own hold")
	}
}

func later(s *suite) {
	a, b := s.both()
	a.Hold("k", time.Hour)
	b.await("k", time.Hour)
	b.Hold("k", 2*time.Hour)
	a.await("k", 2*time.Hour)
	a.Hold("k", 10*time.Minute)
	a.Hold("next", time.Hour)
	b.await("next", time.Hour)
	s.open(s.b, "").await("k", 2*time.Hour)
	b.await("k", time.Hour) // as it was held last
}

func distinct(s *suite) {
	keys := []string{"", ":", "a:b", "a", "=a", "-a", "#a", "a b", " ", "{a}", "ünï\u2028", "\x00\xff", strings.Repeat("k", 1024)}
	a, b := s.both()
	other := s.open(s.b, "/other")
	other.Sync(context.Background(), "")
	for i, key := range keys {
		b.Sync(context.Background(), key)
		a.Hold(key, time.Duration(i+2)*time.Hour)
	}
	for i, key := range keys {
		b.await(key, time.Duration(i+2)*time.Hour)
	}
	other.await("a", 0)
}

func late(s *suite) {
	a, b := s.both()
	a.Hold("k", time.Hour)
	b.await("k", time.Hour)
	newcomer := s.open(s.b, "")
	newcomer.Sync(context.Background(), "k")
	if newcomer.held("k") <= 0 {
		s.Error("the first Sync returned before the hold was known")
	}
}

func release(s *suite) {
	a, b := s.both()
	a.Hold("k", time.Hour)
	b.await("k", time.Hour)
	b.Release("k", time.Hour)
	a.await("k", 0)
	s.open(s.a, "").await("k", 0)
	a.Hold("k", 30*time.Minute)
	b.await("k", 30*time.Minute)
}

func survives(s *suite) {
	a, b := s.both()
	a.Hold("k", 3*time.Hour)
	b.await("k", 3*time.Hour)
	b.Release("k", time.Hour) // of a hold that ends earlier
	b.Hold("next", time.Hour)
	a.await("next", time.Hour)
	s.open(s.a, "").await("k", 3*time.Hour)
}

func within(s *suite) {
	a, b := s.open(s.a, ""), s.open(s.a, "")
	b.Sync(context.Background(), "k")
	a.Hold("k", time.Hour)
	b.await("k", time.Hour)
}

func closed(s *suite) {
	a, b := s.both()
	a.Hold("said", time.Hour)
	a.Close()
	a.Close()
	a.Hold("k", time.Hour)
	a.Release("said", time.Hour)
	a.Sync(context.Background(), "k")
	b.await("said", time.Hour)
	b.Hold("late", time.Hour)
	s.open(s.a, "").await("late", time.Hour)
	if a.calls > 0 {
		s.Error("a closed table has learned of a hold")
	}
	b.await("k", 0)
}

func many(s *suite) {
	a, b := s.both()
	var all sync.WaitGroup
	for i := range 400 {
		key := strconv.Itoa(i)
		b.Sync(context.Background(), key)
		all.Go(func() {
			a.Hold(key, time.Hour)
			a.Sync(context.Background(), key)
			b.Hold(key, 5*time.Hour)
			a.Hold(key, 2*time.Hour)
		})
	}
	all.Wait()
	for i := range 400 {
		a.await(strconv.Itoa(i), 5*time.Hour)
	}
}

func over(s *suite) {
	a, b := s.both()
	a.Hold("k", time.Millisecond)
	a.Hold("never", 0)
	a.Hold("never", -time.Hour)
	time.Sleep(10 * time.Millisecond)
	a.Hold("next", time.Hour)
	b.await("next", time.Hour)
	b.await("k", 0)
	b.await("never", 0)
}

func reenter(s *suite) {
	var table cooldown.Table
	called := make(chan struct{})
	table, err := s.b.OpenCooldown(s.Name(), cooldown.Listener{
		Held: func(string, time.Duration) {
			table.Hold("answer", time.Hour)
			table.Sync(context.Background(), "answer")
			table.Close()
			close(called)
		},
		Released: func(string) {}, Failed: func(error) {}, Recovered: func() {},
	})
	if err != nil {
		s.Fatal(err)
	}
	table.Sync(context.Background(), "k")
	a := s.open(s.a, "")
	a.Hold("k", time.Hour)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-called:
	case <-timer.C:
		s.Fatal("the listener was not called")
	}
	a.await("answer", time.Hour)
}
