package registry_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/registry"
)

// gauge stands for any mechanism.
type gauge struct{ _ int }

func TestAdd(t *testing.T) {
	t.Parallel()
	r := &registry.Registry{}
	add := func(kind, name string) (*gauge, func()) {
		g := &gauge{}
		remove, err := r.Add(registry.Entry{Kind: kind, Name: name, Instance: g})
		require.NoError(t, err)
		return g, remove
	}
	b, remove := add("b", "y")
	add("a", "z")
	add("b", "x")
	_, err := r.Add(registry.Entry{Kind: "b", Name: "y", Instance: &gauge{}})
	require.EqualError(t, err, "is already registered as b")
	for _, name := range []string{"", "\xff"} {
		_, err = r.Add(registry.Entry{Kind: "b", Name: name, Instance: &gauge{}})
		require.EqualError(t, err, "must be text in UTF-8")
	}
	var all []string
	for _, e := range r.Entries() {
		all = append(all, e.Kind+e.Name)
	}
	require.Equal(t, []string{"az", "bx", "by"}, all)
	e, ok := r.Get("b", "y")
	require.True(t, ok)
	require.Same(t, b, e.Instance)
	remove()
	successor, _ := add("b", "y")
	remove()
	e, _ = r.Get("b", "y")
	require.Same(t, successor, e.Instance)

	var none *registry.Registry
	remove, err = none.Add(registry.Entry{Kind: "b", Name: "y", Instance: b})
	require.NoError(t, err)
	remove()
	none.Reloaded("b", nil)
	require.Empty(t, none.Entries())
}

// Each watcher hears of each change after Watch, in order and without a lock.
func TestWatch(t *testing.T) {
	t.Parallel()
	r := &registry.Registry{}
	var seen []string
	r.Watch(func(registry.Entry, registry.Change) { r.Entries() })
	now, cancel := r.Watch(func(e registry.Entry, c registry.Change) {
		seen = append(seen, string(c)+" "+e.Name)
		if e.Name == "1" && c == registry.Added {
			_, err := r.Add(registry.Entry{Kind: "k", Name: "of a watcher", Instance: new(int)})
			require.NoError(t, err)
		}
	})
	require.Empty(t, now)
	remove, err := r.Add(registry.Entry{Kind: "k", Name: "1", Instance: new(int)})
	require.NoError(t, err)
	remove()
	cancel()
	cancel()
	_, err = r.Add(registry.Entry{Kind: "k", Name: "2", Instance: new(int)})
	require.NoError(t, err)
	require.Equal(t, []string{"added 1", "added of a watcher", "removed 1"}, seen)
}

func TestListeners(t *testing.T) {
	t.Parallel()
	var l registry.Listeners
	require.False(t, l.Listening() || l.Calls())
	var seen []string
	to := func(name string) func(context.Context, registry.Event) {
		return func(_ context.Context, e registry.Event) { seen = append(seen, name+" "+e.Text) }
	}
	cancel := l.Add(false, to("changes"))
	require.True(t, l.Listening() && !l.Calls())
	all := l.Add(true, to("all"))
	require.True(t, l.Calls())
	l.Emit(t.Context(), registry.Event{Text: "change"})
	l.Emit(t.Context(), registry.Event{Text: "call", Call: true})
	cancel()
	cancel()
	l.Emit(t.Context(), registry.Event{Text: "change"})
	all()
	require.False(t, l.Listening() || l.Calls())
	l.Emit(t.Context(), registry.Event{Text: "change"})
	require.Equal(t, []string{"changes change", "all change", "all call", "all change"}, seen)
}

func TestListenersUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	var l registry.Listeners
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				cancel := l.Add(true, func(context.Context, registry.Event) {})
				l.Emit(context.Background(), registry.Event{Call: true})
				cancel()
			}
		})
	}
	wg.Wait()
	require.False(t, l.Listening())
}

func TestHistogram(t *testing.T) {
	t.Parallel()
	var h registry.Histogram
	for _, d := range []time.Duration{0, 100 * time.Microsecond, 101 * time.Microsecond, time.Second, time.Hour} {
		h.Observe(d)
	}
	var f registry.Figures
	f.Histogram("wait_seconds", "Waits.", &h, "result", "allowed")
	d := f[0].Dist
	require.EqualValues(t, 5, d.Count)
	require.Equal(t, time.Hour+time.Second+201*time.Microsecond, d.Sum)
	require.Len(t, d.Within, 16)
	for bound, want := range map[time.Duration]uint64{100 * time.Microsecond: 2, 500 * time.Microsecond: 3, time.Second: 4, 30 * time.Second: 4} {
		require.Equal(t, want, d.Within[bound], bound)
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	var f registry.Figures
	f.Counts("calls_total", "Calls.", "result", "success", uint64(3), "failure", uint64(1))
	f.Warn("evicted_total", "Evicted.", 2, "evicted: MaxKeys reached")
	require.Equal(t, `[{calls_total Calls. [result success] 3 <nil> } {calls_total Calls. [result failure] 1 <nil> } {evicted_total Evicted. [] 2 <nil> evicted: MaxKeys reached}]`, fmt.Sprint(f))
}
