package redisstore

import (
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/ratelimittest"
)

// conforms runs the suite in virtual time: a bubble waits for the server without time passing, and the
// server decides by the time of the bubble.
func conforms(t *testing.T, cfg Config) {
	t.Helper()
	conformsOn(t, startServer(t), cfg)
}

func conformsOn(t *testing.T, srv server, cfg Config) {
	t.Helper()
	var n atomic.Int64
	ratelimittest.Run(t, ratelimittest.Harness{
		Open: func(t *testing.T) ratelimit.Store {
			t.Helper()
			time.Sleep(time.Until(time.UnixMicro(epoch).AddDate(1, 0, 0))) // a bubble begins with 2000
			client := srv.virtual(t)
			s := newStore(t, client, cfg.With(func(c *Config) { c.Prefix = "test" + strconv.FormatInt(n.Add(1), 10) }))
			s.clock = time.Now
			return s
		},
		Bubble: synctest.Test,
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
