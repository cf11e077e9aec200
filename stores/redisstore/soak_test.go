//go:build soak

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/redistest"
)

func TestSoakSameAsMemory(t *testing.T)  { checkDecides(t, 20) }
func TestSoakEvictionByTTL(t *testing.T) { checkFlood(t, "12mb", 200_000) }

func TestSoakDistanceNearTheTimeout(t *testing.T) {
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

func TestSoakDistanceWithManyCallers(t *testing.T) {
	for range 5 {
		for _, trip := range []time.Duration{20 * time.Millisecond, 30 * time.Millisecond} {
			for _, mode := range []Mode{Strict, Coalesced} { // one after the other: each of them can use the whole machine
				t.Run(fmt.Sprint(mode, " ", trip), func(t *testing.T) { checkManyCallers(t, mode, trip) })
			}
		}
	}
}

func TestSoakConformance(t *testing.T) {
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
			cfg := cfg
			cfg.Prefix = "test" + strconv.FormatInt(n.Add(1), 10)
			return wrap(newStore(t, client, cfg))
		},
		Unit:  600 * time.Millisecond,
		Slack: 150 * time.Millisecond,
	})
}

// TestSoakAFailoverBehindOneAddress: the last failure is soon after the new primary answers, at the default
// Timeout and with many connections, also if decisions have failed before for a while.
func TestSoakAFailoverBehindOneAddress(t *testing.T) {
	const idle, bound = 160, 2 * time.Second
	for _, trip := range []time.Duration{0, 10 * time.Millisecond} {
		for _, outage := range []time.Duration{0, time.Second, 5 * time.Second} {
			for _, to := range demotions() {
				t.Run(fmt.Sprintf("%v %v %s", trip, outage, to.name), func(t *testing.T) {
					modes(t, func(t *testing.T, mode Mode) {
						t.Helper()
						leavesNothing(t)
						quiettest.Repeat(t, func() (err error) { // a busy machine can be late at any time
							r := redistest.StartRelay(t)
							client := idleClient(t, r, idle)
							s := newStore(t, client, Config{Mode: mode, Timeout: defaultTimeout})
							table := open(t, s, "t")
							id := planned(t, table, ratelimit.PerHour(1_000_000))
							decides(t, table, "k", id)
							r.Delay(trip / 2)
							swap := func() { r.Swap(t, to.cut, to.commands...) }
							if outage == 0 { // as many connections as there were lead to the demoted server
								swap()
							}
							var mu sync.Mutex
							last, failures := map[string]time.Time{}, 0 // by the reason
							var wg sync.WaitGroup
							ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
							for range 8 {
								wg.Go(func() {
									for ctx.Err() == nil {
										if _, err := table.Apply(context.WithoutCancel(ctx), "k", id, limits.Op{Cost: 1}); err != nil {
											reason := strings.Join(strings.SplitN(err.Error(), ":", 3)[:2], ":")
											mu.Lock()
											last[reason], failures = time.Now(), failures+1
											mu.Unlock()
										}
										time.Sleep(time.Millisecond)
									}
								})
							}
							if outage > 0 {
								swap()
								r.Point(r.Primary.Addr)
								time.Sleep(outage)
								r.Point(r.Replica.Addr)
								if to.cut {
									r.Cut()
									r.Resume()
								}
							}
							began := time.Now()
							time.Sleep(bound + 2*time.Second)
							cancel()
							wg.Wait()
							t.Logf("%d failures", failures)
							for reason, at := range last {
								t.Logf("%s: the last after %v", reason, at.Sub(began))
								if at.Sub(began) >= bound {
									err = errors.Join(err, fmt.Errorf("%s: the last after %v", reason, at.Sub(began)))
								}
							}
							return err
						})
					})
				})
			}
		}
	}
}

// TestSoakValkey runs the conformance suite over Valkey: the program that GRESIL_VALKEY names, or
// valkey-server on the PATH. Without one it says so, and passes.
func TestSoakValkey(t *testing.T) {
	program := os.Getenv("GRESIL_VALKEY")
	if program == "" {
		found, err := exec.LookPath("valkey-server")
		if err != nil {
			t.Log("valkey-server is not on the PATH, and GRESIL_VALKEY names none: Valkey was NOT tested")
			return
		}
		program = found
	}
	for _, mode := range []Mode{Strict, Coalesced, Lease} {
		t.Run(string(mode), func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Symlink(core.Must(filepath.Abs(program)), filepath.Join(dir, "redis-server")))
			t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
			s := redistest.Start(t)
			version, err := s.Do("info server")
			require.NoError(t, err)
			require.Contains(t, version, "valkey_version:", "%s is no Valkey", program)
			t.Log("the suite runs over", program)
			conformsOn(t, server{s}, Config{Mode: mode}, inWrappers)
		})
	}
}
