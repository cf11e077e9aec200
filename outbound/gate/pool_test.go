package gate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/gate"
)

// connections counts those of a pool.
type connections struct {
	mu           sync.Mutex
	open, most   int
	dialed, sick map[string]int
	closed       []string
	fail         error
}

// gone returns those that were closed.
func (x *connections) gone() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.closed)
}

// pool makes a pool of them. A connection is its key and a number.
func (x *connections) pool(g *gate.Gate, capacity int) *gate.Pool[string, string] {
	x.dialed, x.sick = map[string]int{}, map[string]int{}
	return core.Must(gate.NewPool(g, gate.PoolConfig[string, string]{
		Capacity: capacity,
		Dial: func(_ context.Context, key string) (string, error) {
			x.mu.Lock()
			defer x.mu.Unlock()
			if x.fail != nil {
				return "", x.fail
			}
			x.dialed[key]++
			x.open++
			x.most = max(x.most, x.open)
			return fmt.Sprint(key, x.dialed[key]), nil
		},
		Close: func(_, conn string) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.open--
			x.closed = append(x.closed, conn)
		},
		Healthy: func(_, conn string) bool { return x.sick[conn] == 0 },
		Call:    account,
	}))
}

// use makes a call that takes a second, and returns its connection.
func use(ctx context.Context, p *gate.Pool[string, string], key string) (string, error) {
	return gate.Do(ctx, p, key, func(_ context.Context, conn string) (string, error) {
		time.Sleep(time.Second)
		return conn, nil
	})
}

func TestPool(t *testing.T) {
	t.Parallel()
	byAccount := gate.Config{Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}}
	together := func(t tester, p *gate.Pool[string, string], keys ...string) {
		t.Helper()
		var group sync.WaitGroup
		for _, key := range keys {
			group.Go(func() { _, err := use(t.Context(), p, key); require.NoError(t, err) })
			synctest.Wait()
		}
		group.Wait()
		synctest.Wait()
	}
	for name, f := range map[string]func(t tester, x *connections, g *gate.Gate, p *gate.Pool[string, string]){
		"idle one of the key": func(t tester, x *connections, _ *gate.Gate, p *gate.Pool[string, string]) {
			together(t, p, "a", "b")
			together(t, p, "b", "a", "a")
			require.Equal(t, map[string]int{"a": 2, "b": 1}, x.dialed)
		},
		"oldest idle one is closed": func(t tester, x *connections, _ *gate.Gate, p *gate.Pool[string, string]) {
			together(t, p, "b")
			together(t, p, "a", "a")
			together(t, p, "c")
			require.Equal(t, []string{"b1"}, x.gone())
		},
		"waits for another key": func(t tester, x *connections, _ *gate.Gate, p *gate.Pool[string, string]) {
			start := time.Now()
			together(t, p, "a", "a", "a", "b")
			require.Equal(t, 2*time.Second, time.Since(start))
			require.Equal(t, 3, x.most)
		},
		"not healthy": func(t tester, x *connections, _ *gate.Gate, p *gate.Pool[string, string]) {
			together(t, p, "a")
			x.sick["a1"] = 1
			conn, err := use(t.Context(), p, "a")
			require.NoError(t, err)
			require.Equal(t, "a2", conn)
			require.Equal(t, []string{"a1"}, x.gone())
		},
		"dial fails": func(t tester, x *connections, g *gate.Gate, p *gate.Pool[string, string]) {
			x.fail = errors.New("down")
			_, err := use(t.Context(), p, "a")
			require.Equal(t, x.fail, err)
			require.Equal(t, gate.Stats{Rejected: 1}, g.Stats())
		},
		"panics": func(t tester, x *connections, _ *gate.Gate, p *gate.Pool[string, string]) {
			require.PanicsWithValue(t, "of fn", func() {
				_, _ = gate.Do(t.Context(), p, "a", func(context.Context, string) (int, error) { panic("of fn") })
			})
			require.Equal(t, []string{"a1"}, x.gone())
		},
		"idle for too long": func(t tester, x *connections, _ *gate.Gate, p *gate.Pool[string, string]) {
			together(t, p, "a", "b")
			time.Sleep(3 * time.Minute)
			together(t, p, "a")
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			require.Equal(t, []string{"b1"}, x.gone())
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			require.Equal(t, []string{"b1", "a1"}, x.gone())
		},
		"used by its own call": func(t tester, _ *connections, _ *gate.Gate, p *gate.Pool[string, string]) {
			_, err := gate.Do(t.Context(), p, "a", func(ctx context.Context, _ string) (string, error) { return use(ctx, p, "b") })
			require.ErrorIs(t, err, core.ErrRejected)
			require.ErrorContains(t, err, "own calls")
		},
		"refused call takes its own again": func(t tester, x *connections, _ *gate.Gate, p *gate.Pool[string, string]) {
			var conns []string
			_, err := gate.Do(t.Context(), p, "a", func(_ context.Context, conn string) (int, error) {
				if conns = append(conns, conn); len(conns) < 3 {
					return 0, refusal{time.Second}
				}
				return 0, nil
			})
			require.NoError(t, err)
			require.Equal(t, []string{"a1", "a1", "a1"}, conns)
		},
		"held account keeps no connection": func(t tester, x *connections, _ *gate.Gate, p *gate.Pool[string, string]) {
			var group sync.WaitGroup
			for range 3 {
				n := 0
				group.Go(func() {
					_, err := gate.Do(t.Context(), p, "a", func(context.Context, string) (int, error) {
						if n++; n == 1 {
							return 0, refusal{15 * time.Second}
						}
						return 0, nil
					})
					require.NoError(t, err)
				})
			}
			synctest.Wait()
			start := time.Now()
			together(t, p, "b", "b", "b", "b", "b", "b")
			require.Equal(t, 2*time.Second, time.Since(start))
			group.Wait()
			require.Equal(t, 3, x.most)
		},
		"behind a key that is held": func(t tester, x *connections, g *gate.Gate, _ *gate.Pool[string, string]) {
			p, n := x.pool(g, 1), 0
			go func() {
				_, _ = gate.Do(t.Context(), p, "a", func(context.Context, string) (int, error) {
					if n++; n == 1 {
						time.Sleep(time.Second)
						return 0, refusal{time.Minute}
					}
					return 0, nil
				})
			}()
			synctest.Wait()
			go func() { _, _ = use(t.Context(), p, "a") }()
			synctest.Wait()
			start := time.Now()
			together(t, p, "b")
			require.Equal(t, 2*time.Second, time.Since(start))
			together(t, p, "a")
		},
		"behind a call that gives up": func(t tester, x *connections, g *gate.Gate, _ *gate.Pool[string, string]) {
			cfg := byAccount
			cfg.InFlight = 2
			require.NoError(t, g.SetConfig(cfg))
			p := x.pool(g, 1)
			var group sync.WaitGroup
			begin := func(f func()) {
				group.Go(f)
				synctest.Wait()
			}
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			begin(func() { _, _ = use(t.Context(), p, "a") })
			begin(func() { _, _ = use(ctx, p, "a") }) // it gets no place for the connection
			begin(func() { _, _ = use(t.Context(), p, "b") })
			for range 2 { // one has a place, and the other one waits for it
				begin(func() { require.NoError(t, do(t.Context(), g, gate.Call{}, 3*time.Second)) })
			}
			group.Wait()
			require.Equal(t, 4*time.Second, time.Since(start))
		},
		"under the permit of another call": func(t tester, x *connections, g *gate.Gate, p *gate.Pool[string, string]) {
			require.NoError(t, g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error { _, err := use(ctx, p, "a"); return err }))
			require.EqualValues(t, 1, g.Stats().Sent)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &connections{}
			bubble(t, byAccount, func(t tester, g *gate.Gate) { f(t, x, g, x.pool(g, 3)) })
			require.Zero(t, x.open, "Close of the gate closes them, each once")
		})
	}
}

// A call that the Store refuses gives back the connection that it would have replaced.
func TestPoolOfRefusedCall(t *testing.T) {
	t.Parallel()
	limits := []gate.Limit{{Name: "account", N: 1, Per: time.Minute, Key: gate.ByCall}}
	x := &connections{}
	withStoreAndWithout(t, gate.Config{Limits: limits}, func(t tester, g *gate.Gate) {
		*x = connections{}
		p := x.pool(g, 1)
		for _, key := range []string{"b", "a"} {
			_, err := use(t.Context(), p, key)
			require.NoError(t, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := use(ctx, p, "b") // its slot is a minute away
		require.ErrorIs(t, err, context.Canceled)
		time.Sleep(time.Minute)
		conn, err := use(t.Context(), p, "a")
		require.NoError(t, err)
		require.Equal(t, "a1", conn)
	})
	require.Zero(t, x.open)
}

// hang makes a call that ends with its context.
func hang(ctx context.Context, p *gate.Pool[string, string]) error {
	_, err := gate.Do(ctx, p, "a", func(ctx context.Context, _ string) (int, error) {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	})
	return err
}

// get makes a request.
func get(ctx context.Context, rt http.RoundTripper) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://vendor.test", nil)
	if err != nil {
		return err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// pages returns a fetch of as many pages, each with one row: the connection.
func pages(n int, before func(ctx context.Context) error) func(ctx context.Context, conn string, page int) ([]string, int, error) {
	return func(ctx context.Context, conn string, page int) ([]string, int, error) {
		return []string{conn}, (page + 1) % (n + 1), before(ctx)
	}
}

func free(context.Context) error { return nil }

// The key and the connection can be nil if their types are interfaces.
func TestPoolOfNil(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{}, func(t tester, g *gate.Gate) {
		var closed []any
		p := core.Must(gate.NewPool(g, gate.PoolConfig[any, any]{
			Dial:    func(_ context.Context, key any) (any, error) { return key, nil },
			Close:   func(key, conn any) { closed = append(closed, key, conn) },
			Healthy: func(key, conn any) bool { return key == conn },
		}))
		for range 2 {
			_, err := gate.Do(t.Context(), p, nil, func(_ context.Context, conn any) (any, error) { return conn, nil })
			require.NoError(t, err)
		}
		require.NoError(t, g.Close(t.Context()))
		require.Equal(t, []any{nil, nil}, closed)
	})
}

// The call that uses the permit of a function with a connection has a connection of its own pool beside it, for as long as it lasts.
func TestNestedPools(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	for name, f := range map[string]func(t tester, x *connections, g *gate.Gate, a, b *gate.Pool[string, string]) error{
		"call in a call": func(t tester, _ *connections, g *gate.Gate, a, b *gate.Pool[string, string]) error {
			for range 2 {
				_, err := gate.Do(t.Context(), a, "a", func(ctx context.Context, conn string) (string, error) {
					require.Equal(t, "a1", conn)
					conn, err := use(ctx, b, "b")
					require.Equal(t, "b1", conn)
					return conn, err
				})
				require.NoError(t, err)
			}
			require.EqualValues(t, 2, g.Stats().Sent)
			return nil
		},
		"one place": func(t tester, _ *connections, g *gate.Gate, a, b *gate.Pool[string, string]) error {
			require.NoError(t, g.SetConfig(gate.Config{Limits: g.Config().Limits, InFlight: 1}))
			_, err := gate.Do(t.Context(), a, "a", func(ctx context.Context, _ string) (string, error) { return use(ctx, b, "b") })
			return err
		},
		"other types": func(t tester, _ *connections, g *gate.Gate, a, _ *gate.Pool[string, string]) error {
			var closed []int
			p := core.Must(gate.NewPool(g, gate.PoolConfig[int, *int]{
				Dial:     func(_ context.Context, key int) (*int, error) { return new(key), nil },
				Close:    func(key int, conn *int) { closed = append(closed, key, *conn) },
				IdleTime: time.Minute,
			}))
			_, err := gate.Do(t.Context(), a, "a", func(ctx context.Context, _ string) (int, error) {
				return gate.Do(ctx, p, 7, func(_ context.Context, conn *int) (int, error) {
					require.Equal(t, 7, *conn)
					return 0, nil
				})
			})
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			require.Equal(t, []int{7, 7}, closed)
			return err
		},
		"call in a page": func(t tester, _ *connections, g *gate.Gate, a, b *gate.Pool[string, string]) error {
			for conn, err := range gate.Stream(t.Context(), a, "a", 1, pages(3, func(ctx context.Context) error {
				conn, err := use(ctx, b, "b")
				require.Equal(t, "b1", conn)
				return err
			})) {
				require.NoError(t, err)
				require.Equal(t, "a1", conn)
			}
			require.EqualValues(t, 3, g.Stats().Sent)
			return nil
		},
		"stream in a call": func(t tester, _ *connections, g *gate.Gate, a, b *gate.Pool[string, string]) error {
			_, err := gate.Do(t.Context(), a, "a", func(ctx context.Context, _ string) (int, error) {
				for conn, err := range gate.Stream(ctx, b, "b", 1, pages(3, free)) {
					require.NoError(t, err)
					require.Equal(t, "b1", conn)
				}
				return 0, nil
			})
			require.EqualValues(t, 3, g.Stats().Sent)
			return err
		},
		"inner one is refused": func(t tester, _ *connections, _ *gate.Gate, a, b *gate.Pool[string, string]) error {
			var conns []string
			_, err := gate.Do(t.Context(), a, "a", func(ctx context.Context, conn string) (int, error) {
				conns = append(conns, conn)
				return gate.Do(ctx, b, "b", func(_ context.Context, conn string) (int, error) {
					if conns = append(conns, conn); len(conns) == 2 {
						return 0, refusal{time.Second}
					}
					return 0, nil
				})
			})
			require.Equal(t, []string{"a1", "b1", "a1", "b1"}, conns)
			return err
		},
		"inner one panics": func(t tester, x *connections, _ *gate.Gate, a, b *gate.Pool[string, string]) error {
			require.PanicsWithValue(t, "of fn", func() {
				_, _ = gate.Do(t.Context(), a, "a", func(ctx context.Context, _ string) (int, error) {
					return gate.Do(ctx, b, "b", func(context.Context, string) (int, error) { panic("of fn") })
				})
			})
			require.Equal(t, []string{"b1", "a1"}, x.gone())
			return nil
		},
		"panic is recovered between": func(t tester, x *connections, _ *gate.Gate, a, b *gate.Pool[string, string]) error {
			_, err := gate.Do(t.Context(), a, "a", func(ctx context.Context, _ string) (int, error) {
				require.PanicsWithValue(t, "of fn", func() {
					_, _ = gate.Do(ctx, b, "b", func(context.Context, string) (int, error) { panic("of fn") })
				})
				return 0, nil
			})
			require.Equal(t, []string{"b1"}, x.gone())
			return err
		},
		"inner dial fails": func(t tester, x *connections, g *gate.Gate, a, b *gate.Pool[string, string]) error {
			_, err := gate.Do(t.Context(), a, "a", func(ctx context.Context, _ string) (int, error) {
				x.fail = down
				defer func() { x.fail = nil }()
				_, err := use(ctx, b, "b")
				return 0, err
			})
			require.Equal(t, down, err)
			require.Equal(t, 1, g.Stats().Connections)
			return nil
		},
		"first pool again": func(t tester, _ *connections, _ *gate.Gate, a, b *gate.Pool[string, string]) error {
			_, err := gate.Do(t.Context(), a, "a", func(ctx context.Context, _ string) (string, error) {
				return gate.Do(ctx, b, "b", func(ctx context.Context, _ string) (string, error) { return use(ctx, a, "a") })
			})
			require.ErrorContains(t, err, "own calls")
			return nil
		},
		"request before": func(t tester, _ *connections, g *gate.Gate, a, b *gate.Pool[string, string]) error {
			var sent []string
			_, err := gate.Do(t.Context(), a, "a", func(ctx context.Context, _ string) (string, error) {
				require.NoError(t, get(ctx, g.Transport(answers(&sent, "200"))))
				return use(ctx, b, "b")
			})
			require.EqualValues(t, 2, g.Stats().Sent)
			return err
		},
		"request inside": func(t tester, _ *connections, g *gate.Gate, a, b *gate.Pool[string, string]) error {
			var sent []string
			_, err := gate.Do(t.Context(), a, "a", func(ctx context.Context, _ string) (int, error) {
				return gate.Do(ctx, b, "b", func(ctx context.Context, _ string) (int, error) {
					return 0, get(ctx, g.Transport(answers(&sent, "200")))
				})
			})
			require.EqualValues(t, 1, g.Stats().Sent)
			return err
		},
		"deadline of the inner one while it waits": func(t tester, _ *connections, _ *gate.Gate, a, b *gate.Pool[string, string]) error {
			go func() { _, _ = use(t.Context(), b, "b") }()
			synctest.Wait()
			start := time.Now()
			_, err := gate.Do(t.Context(), a, "a", func(ctx context.Context, _ string) (string, error) {
				ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
				defer cancel()
				return use(ctx, b, "b")
			})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 500*time.Millisecond, time.Since(start))
			return nil
		},
		"deadline of the inner one while it dials": func(t tester, _ *connections, g *gate.Gate, a, _ *gate.Pool[string, string]) error {
			p := core.Must(gate.NewPool(g, gate.PoolConfig[int, int]{Dial: func(ctx context.Context, _ int) (int, error) {
				<-ctx.Done()
				return 0, ctx.Err()
			}}))
			_, err := gate.Do(t.Context(), a, "a", func(ctx context.Context, _ string) (int, error) {
				ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
				defer cancel()
				return gate.Do(ctx, p, 1, func(context.Context, int) (int, error) { return 0, nil })
			})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return nil
		},
		"deadline of the inner one is no limit": func(t tester, _ *connections, g *gate.Gate, a, b *gate.Pool[string, string]) error {
			limited := func(*http.Response, error) gate.Signal { return gate.Signal{Limited: true} }
			require.NoError(t, g.SetConfig(gate.Config{Limits: g.Config().Limits, Classify: limited}))
			_, err := gate.Do(t.Context(), a, "a", func(ctx context.Context, _ string) (int, error) {
				ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
				defer cancel()
				require.ErrorIs(t, hang(ctx, b), context.DeadlineExceeded)
				return 0, nil
			})
			require.Empty(t, g.Holds())
			return err
		},
		"account of the inner one is held": func(t tester, _ *connections, g *gate.Gate, a, b *gate.Pool[string, string]) error {
			refused(t, g, account("b"), 0, time.Minute)
			synctest.Wait()
			start := time.Now()
			_, err := gate.Do(t.Context(), a, "a", func(ctx context.Context, _ string) (string, error) { return use(ctx, b, "b") })
			require.Greater(t, time.Since(start), time.Minute)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &connections{}
			bubble(t, gate.Config{Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}}, func(t tester, g *gate.Gate) {
				a, b := x.pool(g, 1), x.pool(g, 1)
				require.NoError(t, f(t, x, g, a, b))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for key, p := range map[string]*gate.Pool[string, string]{"a": a, "b": b} {
					_, err := use(ctx, p, key)
					require.NoError(t, err, "its place is free")
				}
				require.Equal(t, 2, g.Stats().Connections)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				require.Zero(t, g.Stats().Connections, "they were idle for too long")
			})
			require.Zero(t, x.open)
		})
	}
}

// Only the first call under a permit uses it. What is made beside it or after it is a call of its own, and can use the same pool.
func TestPoolUnderPermit(t *testing.T) {
	t.Parallel()
	together := func(calls ...func() error) error {
		var group sync.WaitGroup
		errs := make([]error, len(calls))
		for i, f := range calls {
			group.Go(func() { errs[i] = f() })
			time.Sleep(500 * time.Millisecond)
		}
		group.Wait()
		return errors.Join(errs...)
	}
	for name, row := range map[string]struct {
		f    func(ctx context.Context, t tester, g *gate.Gate, p *gate.Pool[string, string], rt http.RoundTripper) error
		err  error
		sent int
		took time.Duration
	}{
		"loop over a stream": {func(ctx context.Context, t tester, _ *gate.Gate, p *gate.Pool[string, string], _ http.RoundTripper) error {
			for conn, err := range gate.Stream(ctx, p, "a", 1, pages(2, free)) {
				require.NoError(t, err)
				require.Equal(t, "a1", conn)
				conn, err = use(ctx, p, "a")
				require.NoError(t, err)
				require.Equal(t, "a2", conn)
			}
			return nil
		}, nil, 4, 2 * time.Second},
		"calls together": {func(ctx context.Context, _ tester, _ *gate.Gate, p *gate.Pool[string, string], _ http.RoundTripper) error {
			one := func() error { _, err := use(ctx, p, "a"); return err }
			return together(one, one, one)
		}, nil, 3, 2 * time.Second},
		"call beside a stream": {func(ctx context.Context, t tester, _ *gate.Gate, p *gate.Pool[string, string], _ http.RoundTripper) error {
			return together(func() error {
				for _, err := range gate.Stream(ctx, p, "a", 1, pages(3, func(context.Context) error { time.Sleep(time.Second); return nil })) {
					require.NoError(t, err)
				}
				return nil
			}, func() error { _, err := use(ctx, p, "a"); return err })
		}, nil, 4, 3 * time.Second},
		"request beside a call": {func(ctx context.Context, t tester, g *gate.Gate, p *gate.Pool[string, string], rt http.RoundTripper) error {
			require.NoError(t, g.SetConfig(gate.Config{Limits: g.Config().Limits, InFlight: 1}))
			return together(func() error {
				_, err := gate.Do(ctx, p, "a", func(ctx context.Context, _ string) (int, error) { time.Sleep(time.Second); return 0, get(ctx, rt) })
				return err
			}, func() error {
				start := time.Now()
				err := get(ctx, rt)
				require.Equal(t, 500*time.Millisecond, time.Since(start), "it waits for the place of the other one")
				return err
			})
		}, nil, 2, time.Second},
		"call beside a request": {func(ctx context.Context, _ tester, _ *gate.Gate, p *gate.Pool[string, string], rt http.RoundTripper) error {
			return together(func() error { return get(ctx, rt) }, func() error { _, err := use(ctx, p, "a"); return err })
		}, nil, 2, 1500 * time.Millisecond},
		"Close": {func(ctx context.Context, t tester, g *gate.Gate, p *gate.Pool[string, string], _ http.RoundTripper) error {
			short, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			one := func() error {
				err := hang(ctx, p)
				require.ErrorIs(t, err, gate.ErrClosed)
				return err
			}
			return together(one, one, one, func() error { return g.Close(short) }, one) // the last one begins after Close
		}, gate.ErrClosed, 2, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &connections{}
			bubble(t, gate.Config{Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}}, func(t tester, g *gate.Gate) {
				var sent []string
				p, rt := x.pool(g, 2), g.Transport(answers(&sent, "200"))
				if name == "calls together" {
					p = x.pool(g, 3)
				}
				start := time.Now()
				err := g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error { return row.f(ctx, t, g, p, rt) })
				require.ErrorIs(t, err, row.err)
				require.EqualValues(t, row.sent, g.Stats().Sent)
				require.Equal(t, row.took, time.Since(start))
			})
			require.Zero(t, x.open)
		})
	}
}

// A page that is refused is fetched again: no row is lost or repeated, and the stream keeps its connection. Under the permit of a function
// that is so from the second page on.
func TestStream(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	for name, row := range map[string]struct {
		refuse, fail, stop int // at this page; at this row
		rows               int
		fetched            int
		after              time.Duration
	}{
		"all":            {rows: 30, fetched: 3},
		"page refused":   {refuse: 2, rows: 30, fetched: 4, after: 15 * time.Second},
		"page fails":     {fail: 2, rows: 10, fetched: 2},
		"loop ends":      {stop: 12, rows: 12, fetched: 2},
		"all, two pages": {refuse: 1, rows: 30, fetched: 4, after: 15 * time.Second},
	} {
		for _, under := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, under a permit %t", name, under), func(t *testing.T) {
				t.Parallel()
				x := &connections{}
				bubble(t, gate.Config{Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}}, func(t tester, g *gate.Gate) {
					p := x.pool(g, 1)
					fetched, refused := 0, false
					start, got := time.Now(), []int{}
					read := func(ctx context.Context) error {
						for v, err := range gate.Stream(ctx, p, "a", 1, func(_ context.Context, conn string, page int) (rows []int, next int, err error) {
							require.Equal(t, "a1", conn)
							fetched++
							switch {
							case page == row.refuse && !refused:
								refused = true
								return nil, 0, refusal{15 * time.Second}
							case page == row.fail:
								return nil, 0, gone
							}
							for i := range 10 {
								rows = append(rows, 10*(page-1)+i)
							}
							return rows, (page + 1) % 4, nil
						}) {
							if err != nil {
								return err
							}
							require.Equal(t, len(got), v)
							if got = append(got, v); len(got) == row.stop {
								break
							}
						}
						return nil
					}
					var err error
					if under {
						err = g.Do(t.Context(), gate.Call{}, read)
					} else {
						err = read(t.Context())
					}
					require.Equal(t, row.fail > 0, errors.Is(err, gone))
					require.Len(t, got, row.rows)
					require.Equal(t, row.fetched, fetched)
					require.InDelta(t, row.after, time.Since(start), float64(100*time.Millisecond))
					require.EqualValues(t, row.fetched, g.Stats().Sent)
					_, err = use(t.Context(), p, "b")
					require.NoError(t, err, "the connection is back")
				})
				require.Zero(t, x.open)
			})
		}
	}
}

// The error of a page that was not sent does not have the refusal of the page before.
func TestStreamThatCannotGoOn(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{MaxWait: 10 * time.Second, Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}}, func(t tester, g *gate.Gate) {
		n := 0
		fetch := func(context.Context, string, int) ([]int, int, error) {
			if n++; n == 1 {
				return nil, 0, refusal{time.Second}
			}
			return []int{n}, n, nil
		}
		var last error
		for _, err := range gate.Stream(t.Context(), (&connections{}).pool(g, 1), "a", 1, fetch) {
			if last = err; err == nil {
				refused(t, g, account("a"), 0, time.Hour)
				time.Sleep(time.Millisecond)
			}
		}
		require.ErrorIs(t, last, core.ErrRejected)
		require.Equal(t, 2, n)
	})
}

// A connection whose call outlives Close is closed at the end of the call.
func TestPoolAfterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := &connections{}
		g := core.Must(gate.New(gate.Config{Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}}))
		p := x.pool(g, 1)
		go func() {
			_, _ = gate.Do(t.Context(), p, "a", func(context.Context, string) (int, error) { time.Sleep(time.Minute); return 0, nil })
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, g.Close(ctx), context.DeadlineExceeded)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"a1"}, x.gone())
	})
}
