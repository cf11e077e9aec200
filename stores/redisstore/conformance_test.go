package redisstore

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/ratelimittest"
)

func conforms(t *testing.T, cfg Config) {
	t.Helper()
	conformsOn(t, startServer(t), cfg)
}

func conformsOn(t *testing.T, srv server, cfg Config) {
	t.Helper()
	client := srv.client(t)
	var n atomic.Int64
	ratelimittest.Run(t, ratelimittest.Harness{
		Open: func(t *testing.T) ratelimit.Store {
			t.Helper()
			return newStore(t, client, cfg.With(func(c *Config) { c.Prefix = "test" + strconv.FormatInt(n.Add(1), 10) }))
		},
		Unit:  600 * time.Millisecond,
		Slack: 150 * time.Millisecond,
	})
}

func TestStrictConforms(t *testing.T) {
	t.Parallel()
	conforms(t, Config{})
}

func TestCoalescedConforms(t *testing.T) {
	t.Parallel()
	conforms(t, Config{Mode: Coalesced})
}

func TestADenyCacheConforms(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		conforms(t, Config{Mode: mode, DenyCache: 100})
	})
}
