package gate_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
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
	"github.com/gresil/gresil/internal/resiltest"
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

// A probe without an answer that keeps its place counts for what the vendor has left.
func TestQuotaOfProbe(t *testing.T) {
	t.Parallel()
	cfg := readLeft()
	read := cfg.Classify
	cfg.InFlight, cfg.Classify = 8, func(resp *http.Response, err error) gate.Signal {
		s := read(resp, err)
		if resp == nil {
			s = gate.Classify(nil, err)
			s.Limit = "all"
		}
		return s
	}
	withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
		of := func(key string) gate.Call { return gate.Call{Keys: map[string]string{"account": "a", "all": key}} }
		refused(t, g, of("a"), 0, time.Second)
		time.Sleep(2 * time.Second)
		require.NoError(t, get(g.WithCall(t.Context(), of("b")), g.Transport(left(func() (string, string) { return "1", "3600" }))))
		go func() { _ = do(t.Context(), g, of("a"), time.Minute) }()
		time.Sleep(10 * time.Millisecond)
		start := time.Now()
		require.NoError(t, do(t.Context(), g, of("b"), 0))
		require.InDelta(t, time.Minute, time.Since(start), float64(time.Second))
	})
}

// A probe that dials for long is sent, unless another call needs its place.
func TestSlowDialOfProbe(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{InFlight: 1}, func(t tester, g *gate.Gate) {
		refused(t, g, gate.Call{}, 0, time.Second)
		time.Sleep(2 * time.Second)
		dials := 0
		require.NoError(t, get(t.Context(), g.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
			dials++
			time.Sleep(15 * time.Second)
			httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, r.Context().Err()
		}))))
		require.Equal(t, 1, dials)
	})
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

// Calls that wait for the slow ones of a ramp are made when it ends, and not after later calls.
func TestEndOfRampOfSlowAnswers(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{}, func(t tester, g *gate.Gate) {
		refused(t, g, gate.Call{}, 0, time.Second)
		time.Sleep(time.Millisecond)
		start := time.Now()
		var group sync.WaitGroup
		for _, takes := range []time.Duration{9 * time.Second, 20 * time.Second, 20 * time.Second, 0} { // the probe, two calls, and one that waits
			group.Go(func() {
				require.NoError(t, do(t.Context(), g, gate.Call{}, takes))
				if takes == 0 {
					require.Less(t, time.Since(start), 12*time.Second)
				}
			})
			synctest.Wait()
		}
		group.Wait()
	})
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
			p, err := g.Wait(t.Context(), account(strconv.Itoa(i)))
			if err != nil { // cheaper than require, 65,537 times
				t.Fatal(i, err)
			}
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
			p, err := g.Wait(t.Context(), account(strconv.Itoa(i)))
			if err == nil {
				p.Done(nil)
			} else if i < 65_535 {
				t.Fatal(i, err)
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
	cfg := gate.Config{Name: "ads", Registry: (*core.Registry)(r), InFlight: 8, Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}}
	cfg.Classify = func(_ *http.Response, err error) gate.Signal {
		s := gate.Classify(nil, err)
		s.Busy, s.Reason = s.Limited && s.Pause <= 0, "secondary"
		return s
	}
	bubble(t, cfg, func(t tester, g *gate.Gate) {
		e, _ := r.Get("gate", "ads")
		require.False(t, e.Source.Hosts())
		var seen []string
		e.Source.Events(false, func(_ context.Context, e registry.Event) {
			g.Stats() // no lock is held
			seen = append(seen, fmt.Sprint(e.Text, " ", e.Key, " ", e.Attr("limit"), " ", e.Attr("pause").Any() != nil, " ", e.Attr("reason")))
		})
		refused(t, g, account("a"), 0, time.Second)
		time.Sleep(time.Millisecond)
		require.Equal(t, "secondary", g.Holds()[0].Reason)
		require.NoError(t, do(t.Context(), g, account("a"), 0))
		refused(t, g, account("a"), 0, 0)
		synctest.Wait()
		require.Equal(t, []string{
			"calls are held back a account true secondary", "calls are made again a account false <nil>", "too many calls were in flight   false secondary",
		}, seen)
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

// left is a vendor whose answers say what is left of the limit "account", until a reset.
func left(fields func() (left, reset string)) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
		if left, reset := fields(); left != "" {
			resp.Header = http.Header{"Left": {left}, "Reset": {reset}}
		}
		return resp, nil
	})
}

// readLeft reads these answers.
func readLeft() gate.Config {
	read := gate.Headers(gate.Header{Name: "Left", Format: gate.Remaining, Limit: "account"}, gate.Header{Name: "Reset", Format: gate.ResetIn, Limit: "account"})
	return gate.Config{
		Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}, {Name: "all", Key: gate.ByCall}},
		Classify: func(resp *http.Response, err error) gate.Signal {
			s := read(resp, err)
			if resp != nil && resp.Header.Get("Left") == "-1" {
				s.Quotas = []gate.Quota{{Remaining: -1, Reset: time.Hour}}
			}
			return s
		},
	}
}

// An answer that says that nothing is left begins a hold, like a refusal, but is no reason to lower the number of calls in flight.
func TestQuotaUsedUp(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		left, reset string
		call        string
		held        time.Duration
	}{
		"nothing":          {"0", "60", "a", time.Minute},
		"beyond MaxHold":   {"0", "99999", "a", 2 * time.Minute},
		"no reset":         {"0", "0", "a", 0},
		"not known":        {"-1", "60", "a", 0},
		"one":              {"1", "60", "a", 0},
		"another key":      {"0", "60", "b", 0},
		"not of this call": {"0", "60", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := readLeft()
			cfg.MaxHold, cfg.InFlight = 2*time.Minute, 8
			withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
				rt := g.Transport(left(func() (string, string) { return row.left, row.reset }))
				under := g.WithCall(t.Context(), account("a"))
				if row.call == "" {
					under = t.Context()
				}
				require.NoError(t, get(under, rt))
				time.Sleep(10 * time.Millisecond)
				require.Equal(t, 8, g.Stats().MaxInFlight)
				if holds := g.Holds(); row.held > 0 {
					require.Equal(t, []gate.Hold{{Limit: "account", Key: "a", Until: holds[0].Until, Reason: "quota"}}, holds)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start := time.Now()
				err := do(ctx, g, account(row.call), 0)
				require.Less(t, time.Since(start), 10*time.Millisecond)
				if row.held == 0 {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, core.ErrRejected)
				wait, _ := core.RetryAfter(err)
				require.InDelta(t, row.held, wait, float64(200*time.Millisecond))
				require.NoError(t, do(t.Context(), g, account(row.call), 0))
				require.InDelta(t, row.held, time.Since(start), float64(200*time.Millisecond))
			})
		})
	}
}

// No more calls are in flight than the vendor has left. Only an answer to a later call can raise that number.
func TestQuotaLeft(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		answers []string // what is left, and the reset if it is another; the first three calls are sent together, and answered one after the other
		reset   string
		call    string
		cost    int64
		after   time.Duration
		want    int
	}{
		"lowered":             {[]string{"9", "5", "7"}, "3600", "a", 1, 0, 5},
		"last one is lowest":  {[]string{"5", "7", "3"}, "3600", "a", 1, 0, 3},
		"raised by a new one": {[]string{"5", "7", "3", "6"}, "3600", "a", 1, 0, 6},
		"older, and short":    {[]string{"9", "5@1", "5@1"}, "3600", "a", 1, 2 * time.Second, 5},
		"new, and short":      {[]string{"9", "9", "9", "5@1"}, "3600", "a", 1, 2 * time.Second, 20},
		"lowered by an older": {[]string{"5", "5", "5", "6", "2"}, "3600", "a", 1, 0, 2},
		"says nothing":        {[]string{"5", "7", "3", ""}, "3600", "a", 1, 0, 3},
		"units":               {[]string{"9", "9", "9"}, "3600", "a", 2, 0, 4},
		"too few units":       {[]string{"9", "9", "9"}, "3600", "a", 10, 0, 1},
		"no cost":             {[]string{"9", "9", "9"}, "3600", "a", 0, 0, 20},
		"another key":         {[]string{"1", "1", "1"}, "3600", "b", 1, 0, 20},
		"reset":               {[]string{"1", "1", "1"}, "3600", "a", 1, time.Hour, 20},
		"not known":           {[]string{"-1", "-1", "-1"}, "3600", "a", 1, 0, 20},
		"another limit":       {[]string{"1", "1", "1"}, "3600", "", 1, 0, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withStoreAndWithout(t, readLeft(), func(t tester, g *gate.Gate) {
				var sent atomic.Int64
				rt := g.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
					n := sent.Add(1)
					said := row.answers[n-1]
					time.Sleep(time.Duration(n) * 100 * time.Millisecond)
					said, reset, _ := strings.Cut(said, "@")
					return left(func() (string, string) { return said, cmp.Or(reset, row.reset) }).RoundTrip(r)
				}))
				ctx := g.WithCall(t.Context(), gate.Call{Keys: map[string]string{"account": "a", "all": ""}})
				var group sync.WaitGroup
				for i := range row.answers {
					if i == 3 { // the next ones come after the answers to these
						group.Wait()
					}
					group.Go(func() { require.NoError(t, get(ctx, rt)) })
				}
				group.Wait()
				time.Sleep(row.after)
				var c counter
				for range 20 {
					group.Go(func() {
						call := gate.Call{Keys: map[string]string{"all": ""}, Costs: map[string]int64{"account": row.cost}}
						if row.call != "" {
							call.Keys["account"] = row.call
						}
						require.NoError(t, g.Do(t.Context(), call, func(context.Context) error {
							c.call(time.Minute)
							return nil
						}))
					})
				}
				start := time.Now()
				group.Wait()
				require.Equal(t, row.want, c.most)
				require.InDelta(t, time.Duration((20+row.want-1)/row.want)*time.Minute, time.Since(start), float64(30*time.Second), "a place is used at once when it is free")
			})
		})
	}
}

// A call under no limit has the vendor's. What is left is raised at the answer, before its body ends.
func TestQuotaOfVendor(t *testing.T) {
	t.Parallel()
	cfg := gate.Config{Limits: []gate.Limit{{Key: gate.ByCall}}, Classify: func(resp *http.Response, _ error) (s gate.Signal) {
		if resp != nil && resp.ContentLength > 0 {
			s.Quotas = []gate.Quota{{Remaining: resp.ContentLength, Reset: time.Hour}}
		}
		return s
	}}
	withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
		says := func(left int64, takes, body time.Duration) error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://vendor.test", nil)
			require.NoError(t, err)
			resp, err := g.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
				time.Sleep(takes)
				return &http.Response{StatusCode: http.StatusOK, ContentLength: left, Body: io.NopCloser(strings.NewReader("text")), Request: r}, nil
			})).RoundTrip(req)
			require.NoError(t, err)
			time.Sleep(body)
			return resp.Body.Close()
		}
		require.NoError(t, says(1, 0, 0))
		start := time.Now()
		go func() { _ = says(3, time.Second, time.Minute) }()
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, do(t.Context(), g, gate.Call{}, 0))
		require.InDelta(t, time.Second, time.Since(start), float64(100*time.Millisecond))
		time.Sleep(time.Hour)
	})
}

// Processes share what is left.
func TestQuotaOfProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gates, _ := gatesOf(t, newRedis(2*time.Millisecond), 2, readLeft())
		defer closeAll(gates)
		var c counter
		var group sync.WaitGroup
		for range 2 { // at first, they do not know of each other
			for _, g := range gates {
				require.NoError(t, get(g.WithCall(t.Context(), account("a")), g.Transport(left(func() (string, string) { return "5", "3600" }))))
			}
		}
		for range 10 {
			for _, g := range gates {
				group.Go(func() {
					require.NoError(t, g.Do(t.Context(), account("a"), func(context.Context) error { c.call(time.Second); return nil }))
				})
			}
		}
		group.Wait()
		require.Equal(t, 4, c.most)
	})
}

// A call that gives up while the Store is asked about it does not keep the place of another one.
func TestQuotaOfCallThatGivesUp(t *testing.T) {
	t.Parallel()
	withStoreAndWithout(t, readLeft(), func(t tester, g *gate.Gate) {
		require.NoError(t, get(g.WithCall(t.Context(), account("a")), g.Transport(left(func() (string, string) { return "1", "3600" }))))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = do(ctx, g, account("a"), 0) }()
		synctest.Wait()
		time.AfterFunc(500*time.Microsecond, cancel)
		start := time.Now()
		require.NoError(t, do(t.Context(), g, account("a"), 0))
		require.Less(t, time.Since(start), time.Second)
	})
}

// Too many calls in flight: half of them can be then, once for all that are refused together, and nothing is held.
func TestBusy(t *testing.T) {
	t.Parallel()
	busy := errors.New("busy")
	cfg := gate.Config{InFlight: 60, Classify: func(_ *http.Response, err error) gate.Signal {
		return gate.Signal{Busy: errors.Is(err, busy), Reason: "concurrency"}
	}}
	withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
		burst := func(n, refused int) {
			var all []*gate.Permit
			for range n {
				p, err := g.Wait(t.Context(), gate.Call{})
				require.NoError(t, err)
				all = append(all, p)
			}
			for i, p := range all {
				if i < refused {
					p.Done(busy)
				} else {
					time.AfterFunc(time.Second, func() { p.Done(nil) })
				}
			}
			time.Sleep(10 * time.Millisecond)
			require.Empty(t, g.Holds())
		}
		burst(12, 5)
		require.Equal(t, 6, g.Stats().MaxInFlight)
		_, err := g.Wait(ended(t), gate.Call{})
		require.Error(t, err, "seven are in flight")
		time.Sleep(2 * time.Second)
		require.Equal(t, 6, g.Stats().MaxInFlight, "it grows slowly")
		burst(6, 1)
		require.Equal(t, 3, g.Stats().MaxInFlight)
		time.Sleep(2 * time.Second)
		burst(1, 1)
		require.Equal(t, 1, g.Stats().MaxInFlight)
		for range 20 {
			require.NoError(t, do(t.Context(), g, gate.Call{}, 10*time.Millisecond))
		}
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, 2, g.Stats().MaxInFlight, "it grows slowly")
	})
}

// ended returns a context whose wait is short.
func ended(t tester) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// used returns how much later calls are in a bucket, since the usage of the key before counts. In a Store, it does not.
func used(g *gate.Gate, d time.Duration) time.Duration {
	if g.Config().Store != nil {
		return 0
	}
	return d
}

// The next attempt of a call, and the next page of a stream, use the bucket that the last answer has named. A hold of the key before is one
// of the bucket.
func TestBucketOfNextAttempt(t *testing.T) {
	t.Parallel()
	cfg := gate.Config{Limits: []gate.Limit{{Name: "account", Key: gate.ByCall, N: 1, Per: time.Minute}}}
	cfg.Classify = func(resp *http.Response, err error) gate.Signal {
		s := gate.Classify(resp, err)
		if resp != nil {
			s.Quotas = []gate.Quota{{Bucket: resp.Header.Get("Bucket")}}
		}
		return s
	}
	bucket := func(replies ...resiltest.Reply) http.RoundTripper {
		for i := range replies {
			replies[i].Header = http.Header{"Bucket": {"x"}}
			if replies[i].Status != 0 {
				replies[i].Header.Set("Retry-After", "30")
			}
		}
		return resiltest.NewScript(replies...)
	}
	refusal := resiltest.Reply{Status: http.StatusTooManyRequests}
	withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
		start := time.Now()
		require.NoError(t, get(g.WithCall(t.Context(), account("a")), g.Transport(bucket(refusal, resiltest.Reply{}))))
		require.InDelta(t, 30*time.Second+used(g, 30*time.Second), time.Since(start), float64(time.Second))
	})
	withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
		p, err := gate.NewPool(g, gate.PoolConfig[string, string]{
			Dial: func(context.Context, string) (string, error) { return "", nil }, Call: account,
		})
		require.NoError(t, err)
		start, rt, n := time.Now(), g.Transport(bucket(resiltest.Reply{})), 0
		var at []time.Duration
		for _, err := range gate.Stream(t.Context(), p, "a", 1, pages(3, func(ctx context.Context) error { return get(ctx, rt) })) {
			require.NoError(t, err)
			at = append(at, time.Since(start).Round(time.Minute))
			n++
		}
		late := used(g, time.Minute)
		require.Equal(t, []time.Duration{0, late, time.Minute + late}, at)
	})
	withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
		rt := g.Transport(bucket(resiltest.Reply{Delay: time.Second}))
		require.NoError(t, get(g.WithCall(t.Context(), account("b")), rt))
		time.Sleep(time.Minute)
		go func() { _ = get(g.WithCall(t.Context(), account("a")), rt) }()
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, g.SetConfig(func() gate.Config { c := g.Config(); c.Limits[0].N = 1000; return c }()))
		refused(t, g, account("a"), 0, time.Hour)
		time.Sleep(time.Second)
		require.Len(t, g.Holds(), 3, "the bucket and both of its keys")
	})
	cfg.Limits = []gate.Limit{{Name: "account", Key: gate.ByCall, N: 10, Per: 10 * time.Second}, {Name: "path", Key: func(r *http.Request) (string, bool) { return r.URL.Path, true }}}
	withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
		rt, start := g.Transport(bucket(resiltest.Reply{})), time.Now()
		for range 4 { // with the first key, and then three with the bucket
			require.NoError(t, g.Do(t.Context(), account("a"), func(ctx context.Context) error { return get(ctx, rt) }))
		}
		require.InDelta(t, 2*time.Second+used(g, time.Second), time.Since(start), float64(100*time.Millisecond), "the request takes no further slot")
	})
}

// Buckets that are not in use are forgotten.
func TestManyBuckets(t *testing.T) {
	t.Parallel()
	cfg := gate.Config{Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}, Classify: func(resp *http.Response, _ error) gate.Signal {
		return gate.Signal{Quotas: []gate.Quota{{Bucket: resp.Header.Get("Left")}}}
	}}
	bubble(t, cfg, func(t tester, g *gate.Gate) {
		for i := range 10_000 {
			rt := g.Transport(left(func() (string, string) { return fmt.Sprint("bucket ", i), "" }))
			require.NoError(t, get(g.WithCall(t.Context(), account(fmt.Sprint(i))), rt))
		}
		require.Less(t, g.Buckets(), 3000)
	})
}

// Keys for which the vendor names one bucket share slots and holds from then on.
func TestBuckets(t *testing.T) {
	t.Parallel()
	route := func(r *http.Request) (string, bool) { return r.URL.Path, true }
	limited := func(resp *http.Response, limit string) (s gate.Signal) {
		if resp != nil {
			if resp.StatusCode == http.StatusTooManyRequests {
				s.Limited, s.Pause = true, 30*time.Second
			}
			s.Quotas = []gate.Quota{{Limit: limit, Bucket: resp.Header.Get("Bucket")}}
		}
		return s
	}
	for name, row := range map[string]struct {
		limit gate.Limit
		calls []string // path, bucket, status
		want  []time.Duration
		of    string // the limit of the bucket, if it is another one
	}{
		"slots": {
			gate.Limit{N: 1, Per: time.Minute},
			[]string{"/a x 200", "/b x 200", "/a x 200", "/b x 200", "/c y 200"},
			[]time.Duration{0, 0, 0, time.Minute, time.Minute},
			"",
		},
		"of another limit": {
			gate.Limit{N: 1, Per: time.Minute},
			[]string{"/a x 200", "/b x 200", "/a x 200", "/b x 200"},
			[]time.Duration{0, 0, time.Minute, time.Minute},
			"other",
		},
		"no bucket": {
			gate.Limit{N: 1, Per: time.Minute},
			[]string{"/a  200", "/b  200", "/a  200", "/b  200"},
			[]time.Duration{0, 0, time.Minute, time.Minute},
			"",
		},
		"another bucket": {
			gate.Limit{N: 1, Per: time.Minute},
			[]string{"/a x 200", "/b x 200", "/a z 200", "/b x 200", "/a z 200"},
			[]time.Duration{0, 0, 0, time.Minute, time.Minute},
			"",
		},
		"hold":                  {gate.Limit{}, []string{"/a x 200", "/b x 200", "/a x 429", "/b x 200", "/c  200"}, []time.Duration{0, 0, 0, 30 * time.Second, 30 * time.Second}, ""},
		"learned with the hold": {gate.Limit{}, []string{"/b x 200", "/a x 429", "/b x 200"}, []time.Duration{0, 0, 30 * time.Second}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.limit.Name, row.limit.Key = "route", route
			cfg := gate.Config{Limits: []gate.Limit{row.limit}, MaxAttempts: 1, Classify: func(resp *http.Response, _ error) gate.Signal {
				return limited(resp, cmp.Or(row.of, "route"))
			}}
			withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
				start := time.Now()
				for i, call := range row.calls {
					word := strings.Split(call, " ")
					rt := g.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
						resp := &http.Response{Header: http.Header{"Bucket": {word[1]}}, Body: http.NoBody, Request: r}
						_, _ = fmt.Sscan(word[2], &resp.StatusCode)
						return resp, nil
					}))
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://vendor.test"+word[0], nil)
					require.NoError(t, err)
					resp, err := rt.RoundTrip(req)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					want := row.want[i]
					if i > 1 && row.of == "" && row.limit.N > 0 && word[1] != "" {
						want += used(g, time.Minute)
					}
					require.InDelta(t, want, time.Since(start), float64(time.Second), "%d", i)
				}
			})
		})
	}
}

// The vendor is busy again within a second: its keys are held until another change is possible. A hold of other keys changes nothing.
func TestBusyAgain(t *testing.T) {
	t.Parallel()
	busy := errors.New("busy")
	cfg := gate.Config{InFlight: 16, Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}, Classify: func(_ *http.Response, err error) gate.Signal {
		return gate.Signal{Busy: errors.Is(err, busy), Limited: errors.As(err, new(refusal)), Pause: time.Hour}
	}}
	withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
		refused(t, g, account("a"), 0, time.Hour)
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, 8, g.Stats().MaxInFlight)
		var all []*gate.Permit
		for range 8 {
			p, err := g.Wait(t.Context(), account("b"))
			require.NoError(t, err)
			all = append(all, p)
		}
		for _, p := range all {
			p.Done(busy)
		}
		start := time.Now()
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 4, g.Stats().MaxInFlight)
		require.Len(t, g.Holds(), 1)
		p, err := g.Wait(t.Context(), account("b"))
		require.NoError(t, err)
		p.Done(busy)
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, 4, g.Stats().MaxInFlight)
		p, err = g.Wait(t.Context(), account("b"))
		require.NoError(t, err)
		require.InDelta(t, time.Second, time.Since(start), float64(200*time.Millisecond))
		p.Done(busy)
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, 1, g.Stats().MaxInFlight, "half of the one that was in flight")
	})
}

// While the Store is unavailable, a vendor that is busy lowers the share of the process.
func TestBusyWithoutStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRedis(time.Millisecond)
		gates, _ := gatesOf(t, r, 1, gate.Config{InFlight: 8, Classify: func(_ *http.Response, err error) gate.Signal { return gate.Signal{Busy: err != nil} }})
		defer closeAll(gates)
		g := gates[0]
		var all []*gate.Permit
		for range 8 {
			p, err := g.Wait(t.Context(), gate.Call{})
			require.NoError(t, err)
			all = append(all, p)
		}
		r.down.Store(true)
		time.Sleep(4 * time.Second)
		for _, p := range all {
			p.Done(errors.New("busy"))
		}
		var c counter
		for range 8 {
			go func() {
				_ = g.Do(t.Context(), gate.Call{}, func(context.Context) error { c.call(time.Second); return nil })
			}()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 4, c.most)
		r.down.Store(false)
		time.Sleep(time.Minute)
	})
}

// What the calls in flight cost counts, and one that costs much is not passed by others.
func TestQuotaOfCosts(t *testing.T) {
	t.Parallel()
	cfg := readLeft()
	cfg.MaxWait = 30 * time.Second
	withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
		require.NoError(t, get(g.WithCall(t.Context(), account("a")), g.Transport(left(func() (string, string) { return "10", "3600" }))))
		start := time.Now()
		call := func(cost int64, takes time.Duration) (after time.Duration, err error) {
			err = g.Do(t.Context(), gate.Call{Keys: account("a").Keys, Costs: map[string]int64{"account": cost}}, func(context.Context) error {
				after = time.Since(start)
				time.Sleep(takes)
				return nil
			})
			return after, err
		}
		go func() { _, _ = call(7, 50*time.Second) }()
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		_, err := call(3, 0)
		require.NoError(t, err, "10 in all")
		_, err = call(4, 0)
		limited, _ := errors.AsType[*gate.LimitedError](err)
		require.NotNil(t, limited)
		require.Equal(t, "account", limited.Limit)
		require.InDelta(t, time.Hour, limited.Until.Sub(start), float64(time.Second))
		var group sync.WaitGroup
		for _, cost := range []int64{8, 1, 2} {
			group.Go(func() {
				after, err := call(cost, 0)
				require.NoError(t, err)
				require.InDelta(t, 50*time.Second, after, float64(time.Second), "%d", cost)
			})
			synctest.Wait()
			time.Sleep(10 * time.Millisecond)
		}
		group.Wait()
	})
}

// A call that the Store refuses does not keep others waiting that its place in flight has.
func TestQuotaBehindRefusedCall(t *testing.T) {
	t.Parallel()
	cfg := readLeft()
	cfg.Limits = []gate.Limit{{Name: "account", Key: gate.ByCall}, {Name: "user", Key: gate.ByCall, N: 1, Per: time.Hour}}
	withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
		of := func(user string) gate.Call { return gate.Call{Keys: map[string]string{"account": "a", "user": user}} }
		require.NoError(t, get(g.WithCall(t.Context(), of("a")), g.Transport(left(func() (string, string) { return "1", "3600" }))))
		go func() { _ = do(t.Context(), g, of("a"), 0) }() // it has no slot for an hour
		synctest.Wait()
		start := time.Now()
		require.NoError(t, do(t.Context(), g, of("b"), 0))
		require.Less(t, time.Since(start), time.Second)
		time.Sleep(2 * time.Hour)
	})
}

// A trial hold after a pause does not end the ramp.
func TestTrialInRamp(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{Classify: func(resp *http.Response, err error) gate.Signal {
		if resp != nil {
			_, _ = io.ReadAll(resp.Body)
			return gate.Signal{}
		}
		return gate.Classify(nil, err)
	}}, func(t tester, g *gate.Gate) {
		replies := []resiltest.Reply{
			{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"60"}}, Body: "slow", Pace: 20 * time.Millisecond},
			{Delay: time.Second},
		}
		rt := g.Transport(resiltest.NewScript(replies...))
		refused(t, g, gate.Call{Keys: map[string]string{"host": "vendor.test:80"}}, 0, 10*time.Second)
		time.Sleep(time.Millisecond)
		for range 20 {
			go func() { _ = get(t.Context(), rt) }()
		}
		time.Sleep(10*time.Second + 500*time.Millisecond)
		require.Equal(t, 2, g.Stats().InFlight)
		time.Sleep(time.Minute)
	})
}

// A trial hold refuses no call that can wait until its slot.
func TestTrialRefusesNoCall(t *testing.T) {
	t.Parallel()
	cfg := gate.Config{Limits: perSecond(1), MaxWait: 1500 * time.Millisecond, Classify: func(resp *http.Response, _ error) gate.Signal {
		_, _ = io.ReadAll(resp.Body)
		return gate.Signal{}
	}}
	bubble(t, cfg, func(t tester, g *gate.Gate) {
		rt := g.Transport(resiltest.NewScript(resiltest.Reply{
			Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"60"}}, Body: "slow", Pace: 20 * time.Millisecond,
		}))
		go func() { _ = get(t.Context(), rt) }()
		synctest.Wait()
		require.NoError(t, do(t.Context(), g, gate.Call{}, 0))
	})
}

// A call that was sent before a hold of its bucket neither begins another one after it, nor tells the bucket anew.
func TestLateAnswersOfBucket(t *testing.T) {
	t.Parallel()
	withStoreAndWithout(t, readBucket(), func(t tester, g *gate.Gate) {
		send := func(takes time.Duration, bucket, pause string) {
			header := http.Header{"Bucket": {bucket}}
			status := http.StatusOK
			if pause != "" {
				header.Set("Retry-After", pause)
				status = http.StatusTooManyRequests
			}
			ctx, cancel := context.WithTimeout(g.WithCall(t.Context(), account("a")), takes+10*time.Millisecond)
			defer cancel()
			_ = get(ctx, g.Transport(resiltest.NewScript(resiltest.Reply{Delay: takes, Status: status, Header: header})))
		}
		go send(31*time.Second, "y", "")
		time.Sleep(10 * time.Millisecond)
		go send(time.Second, "x", "10")
		go send(30*time.Second, "x", "3600")
		time.Sleep(2 * time.Second)
		held := func() (names []string) {
			for _, h := range g.Holds() {
				names = append(names, h.Key)
			}
			slices.Sort(names)
			return names
		}
		require.Equal(t, []string{"a", "x"}, held())
		require.NoError(t, g.Resume(t.Context(), "account", "a"))
		time.Sleep(10 * time.Millisecond)
		require.Empty(t, held())
		require.NoError(t, do(t.Context(), g, account("a"), 0))
		time.Sleep(38 * time.Second)
		require.Empty(t, held())
		refused(t, g, account("a"), 0, time.Minute)
		time.Sleep(10 * time.Millisecond)
		require.Equal(t, []string{"a", "x"}, held())
	})
}

// readBucket is a gate whose vendor names the bucket of an account in a header.
func readBucket() gate.Config {
	return gate.Config{Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}, Classify: func(resp *http.Response, err error) gate.Signal {
		s := gate.Classify(resp, err)
		if resp != nil {
			s.Quotas = []gate.Quota{{Bucket: resp.Header.Get("Bucket")}}
		}
		return s
	}}
}

// A newer answer confirms the bucket: one to an earlier call does not change it any more.
func TestBucketIsConfirmed(t *testing.T) {
	t.Parallel()
	withStoreAndWithout(t, readBucket(), func(t tester, g *gate.Gate) {
		send := func(takes time.Duration, bucket string) {
			reply := resiltest.Reply{Delay: takes, Status: http.StatusOK, Header: http.Header{"Bucket": {bucket}}}
			_ = get(g.WithCall(t.Context(), account("a")), g.Transport(resiltest.NewScript(reply)))
		}
		send(0, "x")
		go send(2*time.Second, "y")
		time.Sleep(time.Second)
		send(0, "x")
		time.Sleep(2 * time.Second)
		refused(t, g, account("a"), 0, time.Minute)
		time.Sleep(10 * time.Millisecond)
		require.True(t, slices.ContainsFunc(g.Holds(), func(h gate.Hold) bool { return h.Key == "x" }))
	})
}
