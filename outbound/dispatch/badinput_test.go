package dispatch_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/dispatch"
)

func TestTheLargestValuesAreNoError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Second)
		closed := 0
		s, d := newScript(answer{0, limited(time.Second)}), newDispatcher(t, config{
			Capacity: 1 << 20, IdleTime: math.MaxInt64, DialTimeout: math.MaxInt64, Attempts: math.MaxInt, Cooldown: math.MaxInt64,
			MaxCooldown: 365 * 24 * time.Hour, Pad: math.MaxInt64, MaxQueue: math.MaxInt,
			Dial:  func(context.Context, string) (none, error) { return none{}, nil },
			Close: func(string, none) { closed++ },
		})
		time.Sleep(time.Second)
		calls(t, d, s, "")
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Zero(t, closed)
		require.Equal(t, 1, d.Stats().Idle)
	})
}

func TestNoAccountIsTakenForAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		accounts := []string{
			"a", "b", "a:b", "a:", ":a", ":", "::", "/", "/a", "a/", "vendor", " ", "\x00", "a\x00", "ä", "a\u0308", "日本", "\xff", "%2F",
			strings.Repeat("x", 1000), strings.Repeat("x", 999) + "y",
		}
		for _, account := range accounts {
			d := newDispatcher(t, config{Attempts: 1, Account: ownAccount})
			_, err := dispatch.Do(t.Context(), d, account, newScript(answer{0, limitedAccount(time.Minute)}).call)
			require.ErrorIs(t, err, dispatch.ErrRateLimited)
			require.Equal(t, account, d.Snapshot().Held[0].Account)
			for _, other := range append(accounts, "") {
				start := time.Now()
				calls(t, d, newScript(), other)
				if other == account {
					require.Equal(t, time.Minute+pad, time.Since(start))
					break
				}
				require.Zero(t, time.Since(start), "%q holds %q", account, other)
			}
		}
	})
}

func TestACallWithoutAnAccountIsLimitedAsTheVendor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, account := range map[string]func(string) string{"empty": ownAccount, "nil": nil} {
			d := newDispatcher(t, config{Attempts: 1, Account: account})
			_, err := dispatch.Do(t.Context(), d, "", newScript(answer{0, limitedAccount(time.Minute)}).call)
			require.ErrorIs(t, err, dispatch.ErrRateLimited)
			start := time.Now()
			calls(t, d, newScript(), "a")
			require.Equal(t, time.Minute+pad, time.Since(start), name)
		}
	})
}

func TestAnyLimitThatAClassifierReturnsHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			limit dispatch.Limited
			want  time.Duration
		}{
			{dispatch.Limited{RetryAfter: -1}, 15 * time.Second},
			{dispatch.Limited{RetryAfter: math.MinInt64}, 15 * time.Second},
			{dispatch.Limited{RetryAfter: 1}, 1},
			{dispatch.Limited{RetryAfter: math.MaxInt64}, 24 * time.Hour},
			{dispatch.Limited{RetryAfter: time.Minute, Scope: 99}, time.Minute},
		} {
			d := newDispatcher(t, config{Attempts: 1, Account: ownAccount, Classify: func(error) (dispatch.Limited, bool) { return c.limit, true }})
			_, err := dispatch.Do(t.Context(), d, "a", newScript(answer{0, errors.New("slow down")}).call)
			require.ErrorIs(t, err, dispatch.ErrRateLimited)
			start := time.Now()
			calls(t, d, newScript(), "b")
			require.Equal(t, c.want+pad, time.Since(start), "%+v", c.limit)
		}
	})
}

// leave ends a function of the user's in the way of the name.
func leave(how string) {
	if how == "panic" {
		panic("told")
	}
	runtime.Goexit()
}

// Whatever function of the user's does not return, all places, connections and turns come back.
func TestAFunctionThatDoesNotReturnLosesNothing(t *testing.T) {
	t.Parallel()
	type cfg = dispatch.Config[string, string]
	for name, set := range map[string]func(cfg *cfg, f func()){
		"Account": func(c *cfg, f func()) { c.Account = func(key string) string { f(); return key } },
		"Classify": func(c *cfg, f func()) {
			c.Classify = func(err error) (dispatch.Limited, bool) { f(); return classify(err) }
		},
		"Dial": func(c *cfg, f func()) {
			dial := c.Dial
			c.Dial = func(ctx context.Context, key string) (string, error) { f(); return dial(ctx, key) }
		},
		"Healthy": func(c *cfg, f func()) { c.Healthy = func(string, string) bool { f(); return true } },
		"Close": func(c *cfg, f func()) {
			closing := c.Close
			c.Close = func(key, conn string) { closing(key, conn); f() }
		},
		"Held":      func(c *cfg, f func()) { c.Hooks.Held = func(context.Context, dispatch.Info) { f() } },
		"Resumed":   func(c *cfg, f func()) { c.Hooks.Resumed = func(context.Context, dispatch.Info) { f() } },
		"Waiting":   func(c *cfg, f func()) { c.Hooks.Waiting = func(context.Context, dispatch.Info) { f() } },
		"Connected": func(c *cfg, f func()) { c.Hooks.Connected = func(context.Context, dispatch.Info) { f() } },
		"Returned":  func(c *cfg, f func()) { c.Hooks.Returned = func(context.Context, dispatch.Info) { f() } },
		"GaveUp":    func(c *cfg, f func()) { c.Hooks.GaveUp = func(context.Context, dispatch.Info) { f() } },
	} {
		for _, how := range []string{"panic", "goexit"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					var mu sync.Mutex
					n, left := 0, 0
					d, s := newPooled(t, 2, func(c *cfg) {
						c.Attempts, c.IdleTime = 2, time.Minute
						set(c, func() {
							mu.Lock()
							n++
							now := n%2 == 1
							if now {
								left++
							}
							mu.Unlock()
							if now {
								leave(how)
							}
						})
					})
					vendor := newScript([]answer{
						{time.Second, limited(5 * time.Second)},
						{time.Second, errors.New("500")},
						{time.Second, nil},
						{time.Second, limitedAccount(time.Second)},
						{time.Second, limited(time.Second)},
						{time.Second, limited(time.Second)},
						{time.Second, limited(time.Second)},
					}...)
					var wg sync.WaitGroup
					for i := range 20 {
						wg.Go(func() {
							defer func() { _ = recover() }()
							_, _ = dispatch.Do(t.Context(), d, string(rune('a'+i%3)), func(ctx context.Context, _ string) (int, error) {
								return vendor.call(ctx, none{})
							})
						})
					}
					wg.Wait()
					for i := range 4 { // each function was called, and the turns of a cooldown are free
						func() {
							defer func() { _ = recover() }()
							ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
							defer cancel()
							done := make(chan none)
							go func() {
								defer close(done)
								defer func() { _ = recover() }()
								_, err := dispatch.Do(ctx, d, string(rune('a'+i%3)), func(context.Context, string) (int, error) { return 0, nil })
								if err != nil && ctx.Err() != nil {
									t.Error("stuck")
								}
							}()
							<-done
						}()
					}
					time.Sleep(time.Hour) // idle connections are closed
					synctest.Wait()
					stats := d.Stats()
					require.Positive(t, left, "the function was called")
					require.Zero(t, stats.Active+stats.InFlight+stats.Waiting+stats.Connections+stats.Idle)
					require.Zero(t, s.open)
					require.Equal(t, stats.Calls, stats.Succeeded+stats.Failed+stats.GaveUp+stats.Canceled)
					require.NoError(t, d.Close(t.Context()))
				})
			})
		}
	}
}

func TestCloseDoesNotWaitForADialThatNeverReturns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan none)
		d, s := newPooled(t, 2, func(c *dispatch.Config[string, string]) {
			dial := c.Dial
			c.Dial = func(ctx context.Context, key string) (string, error) { <-hang; return dial(ctx, key) }
		})
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := dispatch.Do(t.Context(), d, "a", func(context.Context, string) (int, error) { return 0, nil })
				errs <- err
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, d.Close(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		require.ErrorIs(t, <-errs, dispatch.ErrClosed)
		require.ErrorIs(t, <-errs, dispatch.ErrClosed)
		time.Sleep(time.Minute)
		close(hang)
		synctest.Wait()
		require.Zero(t, s.open)
		require.ElementsMatch(t, []string{"+a1", "-a1", "+a2", "-a2"}, s.news())
		require.Zero(t, d.Stats().Connections)
	})
}

func TestATransportLosesNothingToABaseThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"base", "key", "GetBody", "read", "close"} {
		for _, how := range []string{"panic", "goexit"} {
			t.Run(where+"/"+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					at := func(point string) {
						if point == where {
							leave(how)
						}
					}
					d := newDispatcher(t, config{Capacity: 1, Classify: dispatch.Classify})
					sent := 0
					rt := dispatch.RoundTripper(d, transportFunc(func(req *http.Request) (*http.Response, error) {
						at("base")
						if req.Body != nil {
							_ = req.Body.Close()
						}
						if sent++; sent == 1 {
							return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}, Body: http.NoBody}, nil
						}
						return &http.Response{StatusCode: http.StatusOK, Body: leavingBody{at}}, nil
					}), func(*http.Request) string { at("key"); return "" })
					done := make(chan none)
					go func() {
						defer close(done)
						defer func() { _ = recover() }()
						req := post(t, strings.NewReader("order"))
						body := req.GetBody
						req.GetBody = func() (io.ReadCloser, error) {
							at("GetBody")
							return body()
						}
						resp, err := rt.RoundTrip(req)
						if err != nil {
							t.Error(err)
							return
						}
						defer func() { _ = resp.Body.Close() }()
						_, _ = resp.Body.Read(nil)
					}()
					<-done
					synctest.Wait()
					require.Zero(t, d.Stats().Active)
					require.Zero(t, d.Stats().InFlight)
					require.Equal(t, d.Stats().Idle, d.Stats().Connections)
				})
			})
		}
	}
}

type leavingBody struct{ at func(string) }

func (b leavingBody) Read([]byte) (int, error) { b.at("read"); return 0, nil }
func (b leavingBody) Close() error             { b.at("close"); return nil }

func TestEachBadFieldIsNamedWithItsValueAndARemedy(t *testing.T) {
	t.Parallel()
	d := newDispatcher(t, config{})
	for field, c := range map[string]struct {
		cfg   config
		value any
	}{
		"dispatch.Config.Capacity":    {config{Capacity: 1<<20 + 1}, 1<<20 + 1},
		"dispatch.Config.DialTimeout": {config{DialTimeout: -time.Second}, -time.Second},
		"dispatch.Config.Attempts":    {config{Attempts: -2}, -2},
		"dispatch.Config.Cooldown":    {config{Cooldown: math.MinInt64}, time.Duration(math.MinInt64)},
		"dispatch.Config.MaxCooldown": {config{MaxCooldown: math.MaxInt64}, time.Duration(math.MaxInt64)},
	} {
		_, err := dispatch.New(c.cfg)
		for _, err := range []error{err, d.SetConfig(c.cfg), c.cfg.Validate()} {
			bad, ok := errors.AsType[*core.ConfigError](err)
			require.True(t, ok, field)
			require.Equal(t, field, bad.Field)
			require.Equal(t, c.value, bad.Value)
			require.Contains(t, bad.Reason, "(0 means ")
		}
	}
}

func TestFunctionsOfTheUserMayUseTheDispatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d *dispatch.Dispatcher[string, string]
		var mu sync.Mutex
		used := map[string]bool{}
		use := func(name string) {
			if d != nil {
				mu.Lock()
				used[name] = true
				mu.Unlock()
				_, _, _ = d.Snapshot(), d.Config(), d.Stats()
				_ = d.SetConfig(d.Config())
			}
		}
		hook := func(name string) func(context.Context, dispatch.Info) {
			return func(context.Context, dispatch.Info) { use(name) }
		}
		made, _ := newPooled(t, 1, func(c *dispatch.Config[string, string]) {
			dial := c.Dial
			c.Attempts = 1
			c.Account = func(string) string { use("Account"); return "" }
			c.Classify = func(err error) (dispatch.Limited, bool) { use("Classify"); return classify(err) }
			c.Dial = func(ctx context.Context, key string) (string, error) { use("Dial"); return dial(ctx, key) }
			c.Healthy = func(string, string) bool { use("Healthy"); return true }
			c.Close = func(string, string) { use("Close") }
			c.Hooks = dispatch.Hooks{
				Held: hook("Held"), Resumed: hook("Resumed"), Waiting: hook("Waiting"), Connected: hook("Connected"), Returned: hook("Returned"), GaveUp: hook("GaveUp"),
			}
		})
		d = made
		vendor := newScript(answer{time.Second, limited(time.Second)}, answer{after: time.Second})
		for _, key := range []string{"a", "a", "b"} {
			go func() {
				_, _ = dispatch.Do(t.Context(), d, key, func(ctx context.Context, _ string) (int, error) { return vendor.call(ctx, none{}) })
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		require.NoError(t, d.Close(t.Context()))
		require.Len(t, used, 11)
	})
}
