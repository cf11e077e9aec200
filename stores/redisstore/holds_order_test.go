package redisstore

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
)

// A hold that follows a release at once does not undo it: the other processes are held for as long as
// the new hold lasts, and so is this one.
func TestAHoldRightAfterAReleaseKeepsTheRelease(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	a, b := newShared(t, client, Config{}), newShared(t, client, Config{})
	for _, c := range []*cooldown.Cooldown{a, b} {
		use(t, c, "")
		require.Eventually(t, isPushed(c), patient, time.Millisecond)
	}
	a.Hold(t.Context(), "k", time.Hour)
	require.Eventually(t, isHeld(b, "k"), patient, time.Millisecond)
	require.True(t, b.Release("k"))
	b.Hold(t.Context(), "k", time.Minute)
	b.Hold(t.Context(), "next", time.Hour)
	require.Eventually(t, isHeld(a, "next"), patient, time.Millisecond)
	for _, c := range []*cooldown.Cooldown{a, b} {
		require.Eventually(t, func() bool {
			until, ok := c.Until("k")
			return ok && time.Until(until) <= time.Minute+time.Second
		}, patient, time.Millisecond)
	}
}

// A release that the server refuses, as it has a hold that ends later, holds the key again at once.
func TestARefusedReleaseTellsTheLaterHold(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	learned := map[string]time.Duration{}
	open := func() *holds {
		opened, err := newStore(t, client, Config{}).OpenCooldown("t", cooldown.Listener{Held: func(key string, left time.Duration) { learned[key] = left }})
		require.NoError(t, err)
		return opened.(*holds) //nolint:forcetypeassert // it is one
	}
	a, b := open(), open()
	a.unsent["=k"] = &report{id: "=k", until: time.Now().Add(3 * time.Hour)}
	require.NoError(t, a.send(t.Context()))
	b.lastRead, b.pushed = time.Now(), true
	b.stale.Store(false)
	b.unsent["=k"] = &report{id: "=k", until: time.Now().Add(time.Hour), release: true}
	_, err := b.work(t.Context(), time.Now())
	require.NoError(t, err)
	require.InDelta(t, 3*time.Hour, learned["k"], float64(time.Minute))
}

// A server that lost its data and whose clock is behind tells a longer hold all the same: its end has
// a smaller number than the one that a process knows.
func TestALongerHoldIsLearnedFromAServerWhoseClockIsBehind(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	var step atomic.Int64
	shared := func() *cooldown.Cooldown {
		c := newShared(t, client, Config{})
		c.Config().Store.(*Store).clock = func() time.Time { return time.Now().Add(time.Duration(step.Load())) } //nolint:forcetypeassert // see newShared
		return c
	}
	a, b := shared(), shared()
	use(t, a, "")
	use(t, b, "")
	a.Hold(t.Context(), "k", 10*time.Minute)
	require.Eventually(t, isHeld(b, "k"), patient, time.Millisecond)
	step.Store(int64(-time.Hour))
	require.NoError(t, client.FlushAll(t.Context()).Err())
	a.Hold(t.Context(), "k", 20*time.Minute)
	require.Eventually(t, func() bool {
		mine, _ := a.Until("k")
		other, _ := b.Until("k")
		return !other.Before(mine)
	}, patient, time.Millisecond)
}

// The channel of a name is left when its last cooldown is closed, although others use the connection.
func TestTheChannelOfAClosedCooldownIsLeft(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	s := newStore(t, client, Config{})
	open := func(name string) *cooldown.Cooldown {
		c := core.Must(cooldown.New(cooldown.Config{Name: name, Store: s}))
		t.Cleanup(func() { _ = c.Close() })
		use(t, c, "k")
		return c
	}
	channels := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return len(client.PubSubChannels(context.Background(), "*").Val()) == n }, patient, time.Millisecond)
	}
	open("stays")
	one, two := open("ends"), open("ends")
	channels(2)
	require.NoError(t, one.Close())
	require.NoError(t, two.Close())
	channels(1)
	open("ends")
	channels(2)
}

// A release that arrives between the report of a hold and its reply counts if the server has received it
// after the hold, and only then.
func TestAReleaseThatOvertakesTheReplyCounts(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t)
	for name, after := range map[string]time.Duration{"later": time.Minute, "earlier": -time.Minute} {
		released := false
		opened, err := newStore(t, client, Config{}).OpenCooldown(name, cooldown.Listener{Released: func(string) { released = true }})
		require.NoError(t, err)
		table := opened.(*holds) //nolint:forcetypeassert // it is one
		r := &report{id: "=k", until: time.Now().Add(time.Hour)}
		table.unsent["=k"], table.own["=k"] = r, r
		now, err := client.Time(t.Context()).Result()
		require.NoError(t, err)
		at := now.Add(after).UnixMicro() - epoch
		table.learn(fact{"=k", at + (2 * time.Hour).Microseconds(), at, true})
		require.False(t, released, "the reply is not there")
		require.NoError(t, table.send(t.Context()))
		require.Equal(t, after > 0, released, name)
		require.Equal(t, after > 0, table.own["=k"] == nil, "it is not told again")
	}
}
