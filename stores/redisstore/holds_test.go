package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
)

// newShared returns a cooldown over a store of its own, as another process has it.
func newShared(tb testing.TB, client redis.UniversalClient, cfg Config, change ...func(*cooldown.Config)) *cooldown.Cooldown {
	tb.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = patient
	}
	s, err := New(client, cfg)
	require.NoError(tb, err)
	c := cooldown.Config{Name: "vendor", Store: s}
	for _, f := range change {
		f(&c)
	}
	cool, err := cooldown.New(c)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		_ = cool.Close()
		_ = s.Close()
	})
	return cool
}

// held reports whether calls with a key are held.
func held(c *cooldown.Cooldown, key string) func() bool {
	return func() bool {
		_, ok := c.Until(key)
		return ok
	}
}

// use makes a call with a key, so that the cooldown is in use.
func use(tb testing.TB, c *cooldown.Cooldown, key string) {
	tb.Helper()
	p, err := c.Acquire(context.Background(), key)
	require.NoError(tb, err)
	p.Done(core.Success)
}

func TestAHoldIsPushedToTheOthers(t *testing.T) {
	t.Parallel()
	leavesNothing(t)
	srv := startServer(t)
	a, b := newShared(t, srv.client(t), Config{}), newShared(t, srv.client(t), Config{})
	use(t, a, "k")
	use(t, b, "k")
	time.Sleep(200 * time.Millisecond)
	begun := time.Now()
	a.Hold(context.Background(), "k", time.Minute)
	require.Eventually(t, held(b, "k"), patient, time.Millisecond)
	t.Log(time.Since(begun))
	until, _ := a.Until("k")
	other, _ := b.Until("k")
	require.WithinDuration(t, until, other, 100*time.Millisecond)
	require.False(t, other.Before(until))
}
