package gate_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/gate"
)

// What other mechanisms reject was not sent: it is no answer of the vendor, and uses no slot.
func TestRejectionsHoldNothing(t *testing.T) {
	t.Parallel()
	for name, rejection := range map[string]error{
		"breaker":    &breaker.OpenError{Name: "b"},
		"limiter":    &ratelimit.LimitedError{Name: "l", Result: ratelimit.Result{RetryAfter: time.Minute}},
		"other gate": &gate.LimitedError{Gate: "other", Until: time.Now().Add(time.Hour)},
		"full":       gate.ErrFull,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, gate.Config{Limits: perSecond(1)}, func(t tester, g *gate.Gate) {
				require.ErrorIs(t, rejection, core.ErrRejected)
				start, n := time.Now(), 0
				for range 3 {
					err := g.Do(t.Context(), gate.Call{}, func(context.Context) error { n++; return rejection })
					require.Same(t, rejection, err)
				}
				require.Equal(t, 3, n)
				require.Empty(t, g.Holds())
				require.Zero(t, g.Stats().Sent)
				require.Zero(t, time.Since(start))
				repeated := func(context.Context) error { return &blame.Error{Err: rejection, Sent: true} } // after an attempt that was made
				require.ErrorIs(t, g.Do(t.Context(), gate.Call{}, repeated), rejection)
				require.EqualValues(t, 1, g.Stats().Sent)
				require.Empty(t, g.Holds())
			})
		})
	}
}

// A call inside of a function that has used up its attempts is neither made again by the function around it, nor an answer of the vendor of
// that.
func TestCallInsideGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := core.Must(gate.New(gate.Config{MaxAttempts: 3}))
		other := core.Must(gate.New(gate.Config{Name: "other", MaxAttempts: 3}))
		p := core.Must(gate.NewPool(g, gate.PoolConfig[int, int]{Dial: func(context.Context, int) (int, error) { return 0, nil }}))
		pages := map[int]int{}
		err := g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error {
			for _, err := range gate.Stream(ctx, p, 0, 1, func(_ context.Context, _, at int) ([]int, int, error) {
				if pages[at]++; at == 2 {
					return nil, 0, refusal{time.Second}
				}
				return []int{at}, at + 1, nil
			}) {
				if err != nil {
					return err
				}
			}
			return nil
		})
		require.ErrorIs(t, err, gate.ErrLimited)
		require.Equal(t, map[int]int{1: 1, 2: 3}, pages)
		time.Sleep(time.Hour)
		refused(t, g, gate.Call{}, 0, time.Second)
		synctest.Wait()
		calls := 0
		err = g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error {
			return other.Do(ctx, gate.Call{}, func(context.Context) error { calls++; return refusal{time.Second} })
		})
		require.ErrorIs(t, err, gate.ErrLimited)
		require.Equal(t, 3, calls)
		require.ErrorIs(t, get(t.Context(), g.Transport(roundTrip(func(*http.Request) (*http.Response, error) { return nil, err }))), err)
		require.Empty(t, g.Holds())
		for range 2 {
			go func() { _ = do(t.Context(), g, gate.Call{}, time.Second) }()
		}
		synctest.Wait()
		require.Equal(t, 1, g.Stats().InFlight, "the next one is a probe too")
		require.NoError(t, g.Close(t.Context()))
		require.NoError(t, other.Close(t.Context()))
	})
}

// A refused request is repeated, although a later call of the function was not sent, or was one of another gate.
func TestCallInsideAfterRefusal(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(ctx context.Context, rt http.RoundTripper) error{
		"not sent": func(ctx context.Context, rt http.RoundTripper) error {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			return get(ctx, rt)
		},
		"other gate": func(context.Context, http.RoundTripper) error {
			return &gate.LimitedError{Gate: "other", Err: errors.New("refused")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, gate.Config{}, func(t tester, g *gate.Gate) {
				var sent []string
				rt, runs, start := g.Transport(answers(&sent, "429 60", "200")), 0, time.Now()
				require.NoError(t, g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error {
					err := get(ctx, rt)
					if runs++; runs == 1 {
						err = then(ctx, rt)
					}
					return err
				}))
				require.Equal(t, []int{2, 2}, []int{runs, len(sent)})
				require.InDelta(t, time.Minute, time.Since(start), float64(time.Second))
			})
		})
	}
}

// The context of an attempt is that of the caller, and ends with the call.
func TestContextOfAttempt(t *testing.T) {
	t.Parallel()
	type key struct{}
	cause := errors.New("the caller has left")
	bubble(t, gate.Config{}, func(t tester, g *gate.Gate) {
		ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
		var seen []context.Context
		require.NoError(t, g.Do(ctx, gate.Call{}, func(ctx context.Context) error {
			seen = append(seen, ctx)
			require.Equal(t, "value", ctx.Value(key{}))
			return ctx.Err()
		}))
		require.ErrorIs(t, seen[0].Err(), context.Canceled)
		require.ErrorIs(t, g.Do(ctx, gate.Call{}, func(ctx context.Context) error {
			cancel(cause)
			return context.Cause(ctx)
		}), cause)
		require.ErrorIs(t, do(ctx, g, gate.Call{}, 0), cause)
	})
}

// The context of a call inside of a function has what that function has added to its own: values, a deadline, and Calls.
func TestContextOfNestedCall(t *testing.T) {
	t.Parallel()
	type key struct{}
	late := errors.New("late")
	for name, inside := range map[string]func(ctx context.Context, g *gate.Gate, p *gate.Pool[string, string], fn func(ctx context.Context) error) error{
		"Gate.Do": func(ctx context.Context, g *gate.Gate, _ *gate.Pool[string, string], fn func(ctx context.Context) error) error {
			return g.Do(ctx, gate.Call{}, fn)
		},
		"Do": func(ctx context.Context, _ *gate.Gate, p *gate.Pool[string, string], fn func(ctx context.Context) error) error {
			_, err := gate.Do(ctx, p, "a", func(ctx context.Context, _ string) (int, error) { return 0, fn(ctx) })
			return err
		},
		"Stream": func(ctx context.Context, _ *gate.Gate, p *gate.Pool[string, string], fn func(ctx context.Context) error) error {
			for _, err := range gate.Stream(ctx, p, "a", 1, pages(1, fn)) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, gate.Config{Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}}, func(t tester, g *gate.Gate) {
				var sent []string
				rt, p := g.Transport(answers(&sent, "200")), (&connections{}).pool(g, 1)
				start := time.Now()
				require.ErrorIs(t, g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error {
					ctx, cancel := context.WithTimeoutCause(context.WithValue(g.WithCall(ctx, account("a")), key{}, "value"), 2*time.Second, late)
					defer cancel()
					return inside(ctx, g, p, func(ctx context.Context) error {
						require.Equal(t, "value", ctx.Value(key{}))
						require.NoError(t, get(ctx, rt), "with the permit")
						refused(t, g, account("a"), 0, time.Second)
						synctest.Wait()
						require.NoError(t, get(ctx, rt), "by itself")
						require.Greater(t, time.Since(start), time.Second, "it has the account too")
						<-ctx.Done()
						return context.Cause(ctx)
					})
				}), late)
				require.Equal(t, 2*time.Second, time.Since(start))
			})
		})
	}
}

// A refusal is learned though the caller has left meanwhile.
func TestRefusalAfterCancel(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{}, func(t tester, g *gate.Gate) {
		ctx, cancel := context.WithCancel(t.Context())
		require.ErrorIs(t, g.Do(ctx, gate.Call{}, func(context.Context) error { cancel(); return refusal{time.Minute} }), context.Canceled)
		require.Len(t, g.Holds(), 1)
		require.EqualValues(t, 1, g.Stats().Limited)
		ctx, cancel = context.WithCancel(t.Context())
		require.NoError(t, g.Resume(ctx, "", ""))
		require.ErrorIs(t, g.Do(ctx, gate.Call{}, func(context.Context) error { cancel(); return ctx.Err() }), context.Canceled)
		require.Empty(t, g.Holds())
	})
}

// Functions that send over Transport take their slots when they are connected. After one that did not, all take them before.
func TestFunctionsOverTransport(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{Limits: perSecond(1)}, func(t tester, g *gate.Gate) {
		network := resiltest.NewNetwork()
		base := resiltest.Serve(t, network, http.NotFoundHandler()).Transport()
		base.DisableKeepAlives = true
		base.DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
			time.Sleep(400 * time.Millisecond)
			return network.DialContext(ctx, "", addr)
		}
		rt := g.Transport(base)
		over := func(ctx context.Context) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://vendor.test", nil)
			require.NoError(t, err)
			resp, err := rt.RoundTrip(req)
			require.NoError(t, err)
			return resp.Body.Close()
		}
		alone := func(context.Context) error { return nil }
		var sent []time.Time
		for i, fn := range []func(context.Context) error{over, over, alone, alone, over, alone, over, alone} {
			require.NoError(t, g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error {
				err := fn(ctx)
				sent = append(sent, time.Now())
				return err
			}))
			for k := range i {
				if i != 2 && k != 2 { // it was not known to send by itself
					require.GreaterOrEqual(t, sent[i].Sub(sent[k]), time.Duration(i-k)*1050*time.Millisecond, "%d and %d", k, i)
				}
			}
		}
	})
}

// What a breaker inside a function asks for after an attempt is not asked by the vendor.
func TestDoAroundRetryAndBreaker(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{}, func(t tester, g *gate.Gate) {
		down := core.Must(breaker.New(breaker.Config{Failures: 1}))
		again := core.Must(retry.New(retry.Config{MaxAttempts: 3, Backoff: backoff.Constant{Delay: time.Millisecond}}))
		calls := 0
		err := g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error {
			calls++
			_, err := retry.Do(ctx, again, func(ctx context.Context) (int, error) {
				return breaker.Do(ctx, down, func(context.Context) (int, error) { return 0, errors.New("down") })
			})
			return err
		})
		require.ErrorIs(t, err, breaker.ErrOpen)
		require.Equal(t, 1, calls)
		require.Empty(t, g.Holds())
	})
}

// A refused call goes back into the queue also if that is full: it was accepted.
func TestRefusedCallInFullQueue(t *testing.T) {
	t.Parallel()
	withStoreAndWithout(t, gate.Config{InFlight: 1, MaxQueue: 1}, func(t tester, g *gate.Gate) {
		var group sync.WaitGroup
		n := 0
		group.Go(func() {
			require.NoError(t, g.Do(t.Context(), gate.Call{}, func(context.Context) error {
				time.Sleep(time.Second)
				if n++; n == 1 {
					return refusal{time.Second}
				}
				return nil
			}))
		})
		time.Sleep(100 * time.Millisecond)
		group.Go(func() { require.NoError(t, do(t.Context(), g, gate.Call{}, 0)) })
		time.Sleep(100 * time.Millisecond)
		require.ErrorIs(t, do(t.Context(), g, gate.Call{}, 0), gate.ErrFull)
		group.Wait()
		require.Equal(t, 2, n)
	})
}
