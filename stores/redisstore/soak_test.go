//go:build soak

package redisstore

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/ratelimit/ratelimittest"
)

func TestSoakDecidesAsMemoryDoes(t *testing.T)  { checkDecides(t, 20) }
func TestSoakAFloodForgivesNoDebt(t *testing.T) { checkFlood(t, "12mb", 200_000) }

func TestSoakMostDecisionsAreMadeBelowTheTimeout(t *testing.T) {
	for name, start := range distantServers() {
		for _, many := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s many keys %t", name, many), func(t *testing.T) {
				modes(t, func(t *testing.T, mode Mode) {
					t.Helper()
					checkMostDecisions(t, start, mode, 400*time.Millisecond, keysOf(many))
				})
			})
		}
	}
}

func TestSoakConformsInRealTime(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		t.Helper()
		conformsInRealTime(t, Config{Mode: mode}, func(s *Store) ratelimit.Store { return s })
		conformsInRealTime(t, Config{Mode: mode}, inWrappers)
	})
}

// conformsInRealTime runs the suite by the clock of the server.
func conformsInRealTime(t *testing.T, cfg Config, wrap func(*Store) ratelimit.Store) {
	t.Helper()
	client := startServer(t).client(t)
	var n atomic.Int64
	ratelimittest.Run(t, ratelimittest.Harness{
		Open: func(t *testing.T) ratelimit.Store {
			t.Helper()
			return wrap(newStore(t, client, cfg.With(func(c *Config) { c.Prefix = "test" + strconv.FormatInt(n.Add(1), 10) })))
		},
		Unit:  600 * time.Millisecond,
		Slack: 150 * time.Millisecond,
	})
}
