package gate_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/gate"
)

// After a hold one call is sent, and each success makes room for one more: 1, 2, 4 and so on in each round.
func TestRamp(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{}, func(t tester, g *gate.Gate) {
		refused(t, g, gate.Call{}, 0, time.Second)
		time.Sleep(time.Millisecond)
		var group sync.WaitGroup
		var mu sync.Mutex
		var rounds []int
		var last time.Time
		for range 200 {
			group.Go(func() {
				require.NoError(t, g.Do(t.Context(), gate.Call{}, func(context.Context) error {
					mu.Lock()
					if now := time.Now(); now != last {
						rounds, last = append(rounds, 0), now
					}
					rounds[len(rounds)-1]++
					mu.Unlock()
					time.Sleep(50 * time.Millisecond)
					return nil
				}))
			})
		}
		group.Wait()
		require.Equal(t, []int{1, 2, 4, 8, 16, 32, 137}, rounds)
	})
}

// A probe without an answer is given up after ten seconds, and exactly one follows. It has no place any more.
func TestProbeWithoutAnswer(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{InFlight: 1}, func(t tester, g *gate.Gate) {
		refused(t, g, gate.Call{}, 0, time.Second)
		time.Sleep(time.Millisecond)
		var sent atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		for range 5 {
			go func() {
				_ = g.Do(ctx, gate.Call{}, func(ctx context.Context) error { sent.Add(1); <-ctx.Done(); return ctx.Err() })
			}()
		}
		time.Sleep(1200 * time.Millisecond)
		for want := range int64(3) {
			require.Equal(t, want+1, sent.Load())
			time.Sleep(10 * time.Second)
		}
		cancel()
		synctest.Wait()
	})
}

// A probe that ends without an answer, as by a panic, makes room for the next call.
func TestProbeThatPanics(t *testing.T) {
	t.Parallel()
	withStoreAndWithout(t, gate.Config{}, func(t tester, g *gate.Gate) {
		refused(t, g, gate.Call{}, 0, time.Second)
		time.Sleep(2 * time.Second)
		require.Panics(t, func() { _ = g.Do(t.Context(), gate.Call{}, func(context.Context) error { panic("of fn") }) })
		start := time.Now()
		require.NoError(t, do(t.Context(), g, gate.Call{}, 0))
		require.Less(t, time.Since(start), time.Second)
	})
}

// A probe without an answer has its place for ten seconds, also if only calls of other keys wait. An answer keeps it until its body ends.
func TestPlaceOfProbe(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ answer, body, after time.Duration }{
		"no answer": {time.Minute, 0, 10 * time.Second},
		"long body": {9500 * time.Millisecond, 20 * time.Second, 29500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := gate.Config{InFlight: 1, Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}}
			withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
				refused(t, g, account("a"), 0, time.Second)
				time.Sleep(2 * time.Second)
				rt := g.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
					time.Sleep(row.answer)
					return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("text")), Request: r}, nil
				}))
				var probe sync.WaitGroup
				probe.Go(func() {
					req, err := http.NewRequestWithContext(g.WithCall(t.Context(), account("a")), http.MethodGet, "http://vendor.test", nil)
					require.NoError(t, err)
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err)
					time.Sleep(row.body)
					require.NoError(t, resp.Body.Close())
				})
				time.Sleep(10 * time.Millisecond)
				start := time.Now()
				require.NoError(t, do(t.Context(), g, account("b"), 0))
				require.InDelta(t, row.after, time.Since(start), float64(time.Second))
				probe.Wait()
			})
		})
	}
}

// A vendor whose answers take longer than a probe can leaves the ramp, and only its probes lose their places.
func TestRampOfSlowAnswers(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		inFlight int
		probe    time.Duration // how long it takes
		most     int           // calls at once
		within   time.Duration
	}{
		"all":             {0, 15 * time.Second, 20, time.Minute},
		"after the probe": {2, 100 * time.Millisecond, 2, 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withStoreAndWithout(t, gate.Config{InFlight: row.inFlight}, func(t tester, g *gate.Gate) {
				refused(t, g, gate.Call{}, 0, time.Second)
				time.Sleep(10 * time.Millisecond)
				start := time.Now()
				var group sync.WaitGroup
				var c counter
				var probed atomic.Bool
				for range 20 {
					group.Go(func() {
						require.NoError(t, g.Do(t.Context(), gate.Call{}, func(context.Context) error {
							takes := 15 * time.Second
							if !probed.Swap(true) {
								takes = row.probe
							}
							c.call(takes)
							return nil
						}))
					})
				}
				group.Wait()
				require.LessOrEqual(t, c.most, row.most)
				require.Less(t, time.Since(start), row.within)
			})
		})
	}
}

// An empty queue does not end a ramp, a vendor that fails does not either, and ten seconds without a refusal do.
func TestRampEnds(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		idle time.Duration
		want int
	}{"early": {5 * time.Second, 1}, "after ten seconds": {12 * time.Second, 30}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, gate.Config{}, func(t tester, g *gate.Gate) {
				refused(t, g, gate.Call{}, 0, time.Second)
				time.Sleep(row.idle)
				for range 30 {
					go func() { _ = do(t.Context(), g, gate.Call{}, time.Second) }()
				}
				synctest.Wait()
				require.Equal(t, row.want, g.Stats().InFlight)
			})
		})
	}
}

// A vendor that answers with errors after a hold gets one call at a time.
func TestRampOfErrors(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{}, func(t tester, g *gate.Gate) {
		refused(t, g, gate.Call{}, 0, time.Second)
		time.Sleep(time.Millisecond)
		var running atomic.Int32 // Stats has the place of the one before until its body is closed
		rt := g.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
			require.EqualValues(t, 1, running.Add(1))
			defer running.Add(-1)
			time.Sleep(100 * time.Millisecond)
			return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody, Request: r}, nil
		}))
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://vendor.test", nil)
				require.NoError(t, err)
				_, err = rt.RoundTrip(req)
				require.NoError(t, err)
			})
		}
		group.Wait()
	})
}

func TestInFlightAdapts(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{InFlight: 60}, func(t tester, g *gate.Gate) {
		ctx, stop := context.WithCancel(t.Context())
		var group sync.WaitGroup
		start := func(every time.Duration) {
			for range 80 {
				group.Go(func() {
					for ctx.Err() == nil {
						_ = do(ctx, g, gate.Call{}, every)
					}
				})
			}
		}
		time.Sleep(time.Minute)
		start(50 * time.Millisecond)
		time.Sleep(5 * time.Second)
		require.Equal(t, 60, g.Stats().InFlight)
		refused(t, g, gate.Call{}, 0, time.Second)
		time.Sleep(time.Millisecond)
		require.Equal(t, 30, g.Stats().MaxInFlight)
		time.Sleep(time.Second + 5*time.Second)
		require.Equal(t, 60, g.Stats().InFlight, "it is back soon, as it was hardly the reason")
		for range 2 { // in a row
			refused(t, g, gate.Call{}, 0, time.Second)
			time.Sleep(3 * time.Second)
		}
		require.Less(t, g.Stats().MaxInFlight, 32)
		stop()
		group.Wait()
	})
}

// A hold of one key among others in use says nothing about how much the vendor takes.
func TestInFlightOfKeys(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{InFlight: 8, Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}}, func(t tester, g *gate.Gate) {
		go func() { _ = do(t.Context(), g, account("b"), time.Second) }()
		synctest.Wait()
		refused(t, g, account("a"), 0, time.Second)
		time.Sleep(time.Millisecond)
		require.Equal(t, 8, g.Stats().MaxInFlight)
		require.Equal(t, []gate.Hold{{Limit: "account", Key: "a", Until: g.Holds()[0].Until}}, g.Holds())
	})
}

// A refusal that holds several keys halves the places once.
func TestInFlightOfCallWithKeys(t *testing.T) {
	t.Parallel()
	limits := []gate.Limit{{Name: "account", Key: gate.ByCall}, {Name: "method", Key: gate.ByCall}}
	withStoreAndWithout(t, gate.Config{InFlight: 8, Limits: limits}, func(t tester, g *gate.Gate) {
		refused(t, g, gate.Call{Keys: map[string]string{"account": "a", "method": "m"}}, 0, time.Second)
		time.Sleep(100 * time.Millisecond)
		require.Len(t, g.Holds(), 2)
		time.Sleep(10 * time.Second)
		require.NoError(t, do(t.Context(), g, gate.Call{}, 0)) // with a Store, its answer has the number
		require.Equal(t, 4, g.Stats().MaxInFlight)
	})
}

// Of too many held keys the next one holds the vendor, until they are forgotten.
func TestManyHeldKeys(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}, MaxWait: -1}, func(t tester, g *gate.Gate) {
		for i := range 65_537 {
			p, err := g.Wait(t.Context(), account(fmt.Sprint(i)))
			require.NoError(t, err, i)
			p.Done(refusal{time.Minute})
		}
		_, err := g.Wait(t.Context(), account("another"))
		require.ErrorIs(t, err, gate.ErrLimited)
		require.Len(t, g.Holds(), 1000)
		time.Sleep(2 * time.Minute)
		for i := range 3 {
			p, err := g.Wait(t.Context(), account(fmt.Sprint("new", i)))
			require.NoError(t, err)
			p.Done(refusal{time.Minute})
		}
		require.Len(t, g.Holds(), 3)
		time.Sleep(2 * time.Minute)
	})
}

// A key that is evicted is not forgiven.
func TestManyCountedKeys(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{Limits: []gate.Limit{{Name: "account", N: 1, Per: time.Hour, Key: gate.ByCall}}, MaxWait: -1}, func(t tester, g *gate.Gate) {
		for i := range 70_000 {
			p, err := g.Wait(t.Context(), account(fmt.Sprint(i)))
			if i < 65_535 {
				require.NoError(t, err)
			}
			if err == nil {
				p.Done(nil)
			}
		}
		for i := 0; i < 65_536; i += 512 {
			_, err := g.Wait(t.Context(), account(fmt.Sprint(i)))
			require.ErrorIs(t, err, gate.ErrLimited, i)
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestEvents(t *testing.T) {
	t.Parallel()
	r := &registry.Registry{}
	bubble(t, gate.Config{Name: "ads", Registry: (*core.Registry)(r), Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}}, func(t tester, g *gate.Gate) {
		e, _ := r.Get("gate", "ads")
		require.False(t, e.Source.Hosts())
		var seen []string
		e.Source.Events(false, func(_ context.Context, e registry.Event) {
			g.Stats() // no lock is held
			seen = append(seen, fmt.Sprint(e.Text, " ", e.Key, " ", e.Attr("limit"), " ", e.Attr("pause").Any() != nil))
		})
		refused(t, g, account("a"), 0, time.Second)
		time.Sleep(time.Millisecond)
		require.NoError(t, do(t.Context(), g, account("a"), 0))
		require.Equal(t, []string{"calls are held back a account true", "calls are made again a account false"}, seen)
	})
}

// Waiting calls whose deadline comes before the end of a hold are refused when it begins.
func TestHoldRefusesWaiters(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{InFlight: 1, MaxWait: time.Minute}, func(t tester, g *gate.Gate) {
		go refused(t, g, gate.Call{}, time.Second, time.Hour)
		synctest.Wait()
		start := time.Now()
		err := do(t.Context(), g, gate.Call{}, 0)
		require.ErrorIs(t, err, core.ErrRejected)
		wait, _ := core.RetryAfter(err)
		require.Equal(t, time.Hour, wait.Truncate(time.Second))
		require.Equal(t, time.Second, time.Since(start))
		require.Regexp(t, `^gate: default: limited for another 1h0m1s$`, err.Error())
	})
}

func TestLimitedErrorText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for want, err := range map[string]*gate.LimitedError{
			"gate: ads: limited":                              {Gate: "ads"},
			"gate: ads: limited by account for another 1m30s": {Gate: "ads", Limit: "account", Until: time.Now().Add(90 * time.Second)},
			"gate: ads: limited for another 0s: refused":      {Gate: "ads", Until: time.Now().Add(-time.Second), Err: refusal{}},
		} {
			require.EqualError(t, err, want)
		}
	})
}

// The places that a hold has left stay within a new InFlight.
func TestInFlightIsChangedAfterHold(t *testing.T) {
	t.Parallel()
	for to, want := range map[int]int{2: 2, 6: 4, 0: 0} {
		bubble(t, gate.Config{InFlight: 8}, func(t tester, g *gate.Gate) {
			refused(t, g, gate.Call{}, 0, time.Second)
			time.Sleep(time.Millisecond)
			require.Equal(t, 4, g.Stats().MaxInFlight)
			require.NoError(t, g.SetConfig(gate.Config{InFlight: to}))
			require.Equal(t, want, g.Stats().MaxInFlight)
		})
	}
}

// A refusal after Resume halves the places as any other.
func TestInFlightAfterResume(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{InFlight: 8}, func(t tester, g *gate.Gate) {
		for _, want := range []int{4, 2} {
			refused(t, g, gate.Call{}, 0, time.Hour)
			time.Sleep(time.Second)
			require.Equal(t, want, g.Stats().MaxInFlight)
			require.NoError(t, g.Resume(t.Context(), "", ""))
			time.Sleep(time.Second)
		}
	})
}

// A broken connection is no answer: after a hold, it makes no room for more calls.
func TestProbeOfBrokenConnection(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{}, func(t tester, g *gate.Gate) {
		refused(t, g, gate.Call{}, 0, time.Second)
		time.Sleep(2 * time.Second)
		reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
		require.Equal(t, reset, g.Do(t.Context(), gate.Call{}, func(context.Context) error { return reset }))
		for range 2 {
			go func() { _ = do(t.Context(), g, gate.Call{}, time.Second) }()
		}
		synctest.Wait()
		require.Equal(t, 1, g.Stats().InFlight)
	})
}
