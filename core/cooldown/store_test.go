package cooldown_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
)

func sharing(s cooldown.Store) *cooldown.Cooldown {
	return core.Must(cooldown.New(cooldown.Config{Name: "vendor", Store: s, MaxWait: -1}))
}

// TestAHoldOfAnotherProcessIsLikeAnOwnOne: calls wait for its end, admitted ones are not Ready, and
// each process sends one probe of its own.
func TestAHoldOfAnotherProcessIsLikeAnOwnOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, ctx := newMemory(), t.Context()
		a, b := sharing(m), sharing(m)
		admitted, err := b.Acquire(ctx, key)
		require.NoError(t, err)
		require.True(t, admitted.Ready())
		a.Hold(ctx, key, time.Minute)
		require.False(t, admitted.Ready())
		admitted.Done(core.Ignored)
		begun := time.Now()
		for _, c := range []*cooldown.Cooldown{a, b} {
			probe, err := c.Acquire(ctx, key)
			require.NoError(t, err)
			require.Equal(t, time.Minute, time.Since(begun))
			require.True(t, probe.Probe())
			short, cancel := context.WithTimeout(ctx, 0)
			_, err = c.Acquire(short, key)
			require.Error(t, err, "only one")
			cancel()
			defer probe.Done(core.Success)
		}
	})
}

// TestWhatIsToldToTheStore: each hold and its extensions, also by Done and Failed, and nothing that
// came from the store, that is shorter, or that is late.
func TestWhatIsToldToTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, ctx := newMemory(), t.Context()
		a, b := sharing(m), sharing(m)
		end := func(want time.Duration) {
			t.Helper()
			require.Equal(t, want, time.Until(m.until[[2]string{"vendor", key}]))
			for _, c := range []*cooldown.Cooldown{a, b} {
				until, _ := c.Until(key)
				require.Equal(t, want, time.Until(until))
			}
		}
		_, _ = a.Acquire(ctx, "")
		late, err := b.Acquire(ctx, key)
		require.NoError(t, err)
		a.Hold(ctx, key, time.Minute)
		end(time.Minute)
		b.Hold(ctx, key, 30*time.Second)
		end(time.Minute)
		late.Hold(2 * time.Minute)
		end(2 * time.Minute)
		require.EqualValues(t, 1, a.Stats().Holds)
		probe, err := a.Acquire(ctx, key)
		require.NoError(t, err)
		late.Hold(time.Hour)
		require.False(t, isHeldNow(b), "late")
		probe.Failed(5 * time.Second)
		end(5 * time.Second)
		probe, err = b.Acquire(ctx, key)
		require.NoError(t, err)
		probe.Done(core.Failure)
		end(5 * time.Second)
		require.True(t, b.Release(key))
		require.False(t, isHeldNow(a))
		require.False(t, b.Release(key))
		a.Hold(ctx, key, 24*time.Hour)
		end(10 * time.Minute) // MaxHold
	})
}

func isHeldNow(c *cooldown.Cooldown) bool {
	_, ok := c.Until(key)
	return ok
}

// TestAStoreIsSyncedBeforeEachAdmission: by Acquire, and again by Ready.
func TestAStoreIsSyncedBeforeEachAdmission(t *testing.T) {
	t.Parallel()
	m := newMemory()
	early := sharing(m)
	early.Hold(t.Context(), key, time.Hour)
	c := core.Must(cooldown.New(cooldown.Config{Name: "vendor", Store: m}))
	_, err := c.Acquire(t.Context(), key)
	require.ErrorIs(t, err, cooldown.ErrHeld, "it was held before")
	p, err := c.Acquire(t.Context(), "free")
	require.NoError(t, err)
	require.True(t, p.Ready())
	require.Equal(t, 3, m.syncs)
}

// A faulty store reports what it is told to.
type faulty struct {
	cooldown.Table

	err      error
	listener cooldown.Listener
	closed   int
}

func (s *faulty) OpenCooldown(_ string, l cooldown.Listener) (cooldown.Table, error) {
	if s.err != nil {
		return nil, s.err
	}
	s.listener = l
	return s, nil
}

func (s *faulty) Close() { s.closed++ }

func TestEventsOfAStore(t *testing.T) {
	t.Parallel()
	var seen []string
	s := &faulty{}
	c := core.Must(cooldown.New(cooldown.Config{Name: "vendor", Store: s, Registry: eventtest.Registry(func(ctx context.Context, e registry.Event) {
		require.NoError(t, ctx.Err())
		text := e.Text + " " + e.Key
		if err := e.Err(); err != nil {
			text += err.Error()
		}
		seen = append(seen, text)
	})}))
	s.listener.Held("a", time.Minute)
	s.listener.Held("a", 30*time.Second)
	s.listener.Held("b", 0)
	s.listener.Failed(errors.New("no server"))
	s.listener.Recovered()
	s.listener.Released("a")
	s.listener.Released("b")
	require.Equal(t, []string{"calls are held back a", "cooldown store failed no server", "cooldown store recovered "}, seen)
	stats := c.Stats()
	require.EqualValues(t, 1, stats.StoreFailures)
	require.NoError(t, c.Close())
	require.Equal(t, 1, s.closed)
	s.listener.Held("a", time.Minute)
	require.Equal(t, 0, c.Stats().Keys)
}

func TestConfigOfAStore(t *testing.T) {
	t.Parallel()
	_, err := cooldown.New(cooldown.Config{Store: (*memory)(nil)})
	require.EqualError(t, err, "cooldown.Config.Store = a nil pointer: must be a store, or nil for holds of this process")
	_, err = cooldown.New(cooldown.Config{Store: &faulty{err: core.ErrClosed}})
	require.ErrorIs(t, err, core.ErrClosed)

	m := newMemory()
	c := sharing(m)
	for _, s := range []cooldown.Store{nil, newMemory(), uncomparable{}} {
		require.ErrorContains(t, c.SetConfig(with(c.Config(), func(c *cooldown.Config) { c.Store = s })), "cooldown.Config.Store = another one: must stay as it is")
	}
	require.NoError(t, c.SetConfig(with(c.Config(), func(c *cooldown.Config) { c.MaxWait = 0 })))

	var r core.Registry
	s := &faulty{}
	core.Must(cooldown.New(cooldown.Config{Registry: &r}))
	_, err = cooldown.New(cooldown.Config{Registry: &r, Store: s})
	require.ErrorIs(t, err, core.ErrConfig)
	require.ErrorContains(t, err, "already registered")
	require.Equal(t, 1, s.closed, "nothing is left of it")
}

type uncomparable struct{ _ []int }

func (uncomparable) OpenCooldown(string, cooldown.Listener) (cooldown.Table, error) { return nil, nil } //nolint:nilnil // not called
