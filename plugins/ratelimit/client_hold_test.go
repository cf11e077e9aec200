package ratelimit_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/cooldown"
	core_ratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/internal/roundtrip"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/retry"
)

// A vendor answers, and remembers when requests have started.
type vendor struct {
	mu     sync.Mutex
	begin  time.Time
	starts []time.Duration
	answer func(n int, at time.Duration) (status int, latency time.Duration, fields http.Header)
}

func (v *vendor) RoundTrip(req *http.Request) (*http.Response, error) {
	roundtrip.CloseBody(req)
	v.mu.Lock()
	if v.begin.IsZero() {
		v.begin = time.Now()
	}
	at := time.Since(v.begin)
	n := len(v.starts)
	v.starts = append(v.starts, at)
	v.mu.Unlock()
	status, latency, fields := v.answer(n, at)
	if fields == nil {
		fields = http.Header{}
	}
	time.Sleep(latency)
	return &http.Response{StatusCode: status, Body: http.NoBody, Request: req, Header: fields}, nil
}

// between are the starts after from and before to.
func (v *vendor) between(from, to time.Duration) (in []time.Duration) {
	for _, s := range v.starts {
		if from < s && s < to {
			in = append(in, s)
		}
	}
	return in
}

func after(seconds string) http.Header { return http.Header{"Retry-After": {seconds}} }

// One 429 with Retry-After: 3 among 60 concurrent callers: no request starts between its
// arrival and the end of the three seconds, and exactly one is the first after it.
func TestOne429Among60HoldsAllBack(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]func() ratelimit.ClientConfig{
		"limit": func() ratelimit.ClientConfig {
			return ratelimit.ClientConfig{Limit: core_ratelimit.TokenBucket(100, time.Second, 100)}
		},
		"x/time": func() ratelimit.ClientConfig { return ratelimit.ClientConfig{Limiter: rate.NewLimiter(100, 100)} },
	} {
		for _, retried := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(10) {
					synctest.Test(t, func(t *testing.T) {
						r := rand.New(rand.NewPCG(seed, 3))
						var latencies []time.Duration
						for range 1000 {
							latencies = append(latencies, 50*time.Millisecond+time.Duration(r.IntN(2e8)))
						}
						var arrived time.Duration
						v := &vendor{answer: func(n int, at time.Duration) (int, time.Duration, http.Header) {
							if n == 30 {
								arrived = at + latencies[n]
								return http.StatusTooManyRequests, latencies[n], after("3")
							}
							return http.StatusOK, latencies[n], nil
						}}
						limits, err := ratelimit.NewClient(cfg())
						require.NoError(t, err)
						chain := []client.Plugin{limits}
						if retried {
							chain = append(chain, retry.NewClient(nil, retry.ClientOptions{}))
						}
						c := &http.Client{Transport: client.New(v, chain...)}
						var wg sync.WaitGroup
						for range 60 {
							wg.Go(func() {
								for range 4 {
									resp, err := c.Get("http://a.test/")
									require.NoError(t, err)
									_ = resp.Body.Close()
									require.True(t, resp.StatusCode == http.StatusOK || !retried)
								}
							})
						}
						wg.Wait()
						require.Positive(t, len(v.between(0, arrived)))
						require.Empty(t, v.between(arrived, arrived+3*time.Second), "starts while held")
						later := v.between(arrived+3*time.Second-1, time.Hour)
						require.Greater(t, len(later), 60)
						probe := later[0]
						require.Equal(t, arrived+3*time.Second, probe)
						require.Len(t, v.between(probe-1, probe+50*time.Millisecond), 1, "one is the first")
					})
				}
			})
		}
	}
}

// For an hour the vendor answers only 429, some with a longer pause than the others, to 60
// callers that give up and come again.
func TestAnHourOfOnly429s(t *testing.T) {
	t.Parallel()
	plugins := map[string]func() []client.Plugin{
		"limiter": func() []client.Plugin { return nil },
		"both": func() []client.Plugin {
			return []client.Plugin{retry.NewClient(nil, retry.ClientOptions{}), breaker.NewClient(nil, breaker.ClientOptions{})}
		},
	}
	for name, with := range plugins {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var told [][2]time.Duration
				v := &vendor{answer: func(n int, at time.Duration) (int, time.Duration, http.Header) {
					wait, latency := 2+n%7, 50*time.Millisecond+time.Duration(n%5)*50*time.Millisecond
					mu.Lock()
					defer mu.Unlock()
					told = append(told, [2]time.Duration{at + latency, at + latency + time.Duration(wait)*time.Second})
					return http.StatusTooManyRequests, latency, after(strconv.Itoa(wait))
				}}
				limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{}))
				c := &http.Client{Transport: client.New(v, append(with(), limits)...)}
				var wg sync.WaitGroup
				start := time.Now()
				for i := range 60 {
					wg.Go(func() {
						for time.Since(start) < time.Hour {
							if resp, err := c.Get("http://a.test/"); err == nil {
								_ = resp.Body.Close()
							}
							time.Sleep(time.Duration(1+i) * 100 * time.Millisecond)
						}
					})
				}
				wg.Wait()
				inside := 0
				for _, at := range v.starts {
					if slices.ContainsFunc(told, func(p [2]time.Duration) bool { return p[0]+100*time.Millisecond < at && at < p[1] }) {
						inside++
					}
				}
				require.Zero(t, inside, "of %d", len(v.starts))
			})
		})
	}
}

// Everybody is told to wait, and comes back by a retry of its own: still there is one
// first, and more only when it has succeeded.
func TestRetriesPassTheSameGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{answer: func(n int, at time.Duration) (int, time.Duration, http.Header) {
			switch {
			case n < 60:
				return http.StatusTooManyRequests, 10 * time.Millisecond, after("3")
			case n == 60: // again
				return http.StatusServiceUnavailable, 10 * time.Millisecond, after("5")
			}
			return http.StatusOK, 10 * time.Millisecond, nil
		}}
		limits, err := ratelimit.NewClient(ratelimit.ClientConfig{})
		require.NoError(t, err)
		c := &http.Client{Transport: client.New(v, limits, retry.NewClient(core.Must(retry.New(retry.Config{Backoff: backoff.Constant{Delay: time.Second}})), retry.ClientOptions{}))}
		var wg sync.WaitGroup
		for range 60 {
			wg.Go(func() { require.NoError(t, get(t.Context(), t, c, "http://a.test/")) })
		}
		wg.Wait()
		first, second := 3010*time.Millisecond, 8020*time.Millisecond
		require.Empty(t, v.between(0, first))
		require.Equal(t, []time.Duration{first}, v.between(first-1, second))
		require.Len(t, v.between(second-1, second+10*time.Millisecond), 1)
		require.Len(t, v.between(second, second+20*time.Millisecond), 2)
	})
}

// A request that waits for its turn when another one is told to wait does not go out,
// and gives the turn back.
func TestOneThatWaitsForItsTurnIsHeldToo(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]ratelimit.ClientConfig{
		"limit":  {Limit: core_ratelimit.TokenBucket(1, 2*time.Second, 1)},
		"x/time": {Limiter: rate.NewLimiter(0.5, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := &vendor{answer: func(n int, _ time.Duration) (int, time.Duration, http.Header) {
					if n == 0 {
						return http.StatusTooManyRequests, 500 * time.Millisecond, after("3")
					}
					return http.StatusOK, 0, nil
				}}
				c := newClient(t, cfg, v)
				var wg sync.WaitGroup
				for range 2 {
					wg.Go(func() { require.NoError(t, get(t.Context(), t, c, "http://a.test/")) })
				}
				wg.Wait()
				require.Equal(t, []time.Duration{0, 3500 * time.Millisecond}, v.starts)
			})
		})
	}
}

func TestAllWaitsTogetherAreWithinMaxWait(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]ratelimit.ClientConfig{
		"limit":  {Limit: core_ratelimit.TokenBucket(1, 7*time.Second, 1)},
		"x/time": {Limiter: rate.NewLimiter(rate.Every(7*time.Second), 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := &vendor{answer: func(int, time.Duration) (int, time.Duration, http.Header) { return http.StatusOK, 0, nil }}
				limits, err := ratelimit.NewClient(cfg)
				require.NoError(t, err)
				c := &http.Client{Transport: client.New(v, limits)}
				require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
				time.Sleep(time.Second)

				// A hold, and then a turn that is too far away.
				limits.Cooldown().Hold(t.Context(), "a.test:80", 3*time.Second)
				start := time.Now()
				var wg sync.WaitGroup
				wg.Go(func() { require.NoError(t, get(t.Context(), t, c, "http://a.test/")) })
				synctest.Wait()
				wg.Go(func() {
					err := get(t.Context(), t, c, "http://a.test/")
					require.ErrorIs(t, err, core.ErrRejected)
					require.Equal(t, 6*time.Second, time.Since(start).Round(time.Millisecond), "as soon as it is known")
				})
				wg.Wait()

				// A turn, and then a hold that is too long.
				start = time.Now()
				wg.Go(func() {
					err := get(t.Context(), t, c, "http://a.test/")
					require.ErrorIs(t, err, cooldown.ErrHeld)
					require.Equal(t, 7*time.Second, time.Since(start).Round(time.Millisecond))
				})
				time.Sleep(5 * time.Second)
				limits.Cooldown().Hold(t.Context(), "a.test:80", 6*time.Second)
				wg.Wait()
				require.Len(t, v.starts, 2)
			})
		})
	}
}

func TestHeldBeyondTheDeadlineIsRejectedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{answer: func(int, time.Duration) (int, time.Duration, http.Header) {
			return http.StatusServiceUnavailable, 0, after("8")
		}}
		c := newClient(t, ratelimit.ClientConfig{Name: "v"}, v)
		start := time.Now()
		require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		body := &closeCounter{Reader: strings.NewReader("x")}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://a.test/", body)
		require.NoError(t, err)
		_, err = c.Do(req)
		require.ErrorIs(t, err, core.ErrRejected)
		require.ErrorContains(t, err, "cooldown: v: held for another 8s")
		wait, ok := core.RetryAfter(err)
		require.True(t, ok)
		require.Equal(t, 8*time.Second, wait)
		require.Equal(t, 1, body.closed)
		require.Zero(t, time.Since(start))
		require.Len(t, v.starts, 1)
		require.NoError(t, get(t.Context(), t, c, "http://b.test/"), "another key")
	})
}

// Those who leave while the key is held take no turn with them.
func TestThoseWhoLeaveWhileHeldTakeNothing(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]ratelimit.ClientConfig{
		"limit":  {Limit: core_ratelimit.TokenBucket(1, 10*time.Second, 2)},
		"x/time": {Limiter: rate.NewLimiter(rate.Every(10*time.Second), 2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := &vendor{answer: func(n int, _ time.Duration) (int, time.Duration, http.Header) {
					if n == 0 {
						return http.StatusTooManyRequests, 0, after("3")
					}
					return http.StatusOK, 0, nil
				}}
				c := newClient(t, cfg, v)
				require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for range 10 {
					wg.Go(func() { require.ErrorIs(t, get(ctx, t, c, "http://a.test/"), context.Canceled) })
				}
				time.Sleep(time.Second)
				cancel()
				wg.Wait()
				require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
				require.Equal(t, []time.Duration{0, 3 * time.Second}, v.starts)
			})
		})
	}
}

// What a breaker further in refuses is not charged, and is no answer of the server.
func TestARefusalOfABreakerIsRefundedAndTeachesNothing(t *testing.T) {
	t.Parallel()
	{
		synctest.Test(t, func(t *testing.T) {
			v := &vendor{answer: func(int, time.Duration) (int, time.Duration, http.Header) { return http.StatusOK, 0, nil }}
			group := core.Must(breaker.NewGroup(breaker.Config{Initial: breaker.ForcedOpen}))
			open := breaker.NewClient(group, breaker.ClientOptions{})
			limits, err := ratelimit.NewClient(ratelimit.ClientConfig{Limit: core_ratelimit.PerHour(1)})
			require.NoError(t, err)
			c := &http.Client{Transport: limits.Transport(open.Transport(v))}
			for range 5 {
				require.ErrorIs(t, get(t.Context(), t, c, "http://a.test/"), breaker.ErrOpen)
			}
			left, err := limits.Limiter().Peek(t.Context(), "a.test:80")
			require.NoError(t, err)
			require.EqualValues(t, 1, left.Remaining)
			require.Zero(t, limits.Cooldown().Stats().Holds)

			// A probe that was refused says nothing: the next one is the probe.
			limits.Cooldown().Hold(t.Context(), "a.test:80", time.Second)
			_ = get(t.Context(), t, c, "http://a.test/")
			require.NoError(t, group.For("a.test:80").SetState(breaker.Disabled))
			start := time.Now()
			require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
			require.Zero(t, time.Since(start))
			require.EqualValues(t, 1, limits.Cooldown().Stats().Holds)
		})
	}
}

func TestWhatAProbeSays(t *testing.T) {
	t.Parallel()
	response := func(status int, retryAfter ...string) func() (*http.Response, error) {
		return func() (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{"Retry-After": retryAfter}}, nil
		}
	}
	for name, c := range map[string]struct {
		probe func() (*http.Response, error)
		keys  int           // that are still in the table
		held  time.Duration // what is left
	}{
		"success":            {response(http.StatusNotFound), 0, 0},
		"429 without a time": {response(http.StatusTooManyRequests), 1, 2 * time.Second},
		"503 without a time": {response(http.StatusServiceUnavailable), 1, 2 * time.Second},
		"429 with a time":    {response(http.StatusTooManyRequests, "7"), 1, 7 * time.Second},
		"500":                {response(http.StatusInternalServerError), 1, time.Second},
		"no response":        {func() (*http.Response, error) { return nil, errors.New("reset") }, 1, time.Second},
		"a rejection":        {func() (*http.Response, error) { return nil, core.ErrRejected }, 1, 0},
		"a panic":            {func() (*http.Response, error) { panic(http.ErrAbortHandler) }, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limits, err := ratelimit.NewClient(ratelimit.ClientConfig{})
				require.NoError(t, err)
				limits.Cooldown().Hold(t.Context(), "a.test:80", 2*time.Second)
				func() {
					defer func() { _ = recover() }()
					rt := limits.Transport(roundTrip(func(*http.Request) (*http.Response, error) { return c.probe() }))
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", http.NoBody)
					require.NoError(t, err)
					_, _ = rt.RoundTrip(req)
				}()
				require.Equal(t, c.keys, limits.Cooldown().Stats().Keys)
				until, _ := limits.Cooldown().Until("a.test:80")
				require.Equal(t, c.held, max(0, time.Until(until)))
				p, err := limits.Cooldown().Acquire(t.Context(), "a.test:80")
				require.NoError(t, err)
				require.Equal(t, c.held, p.Waited(), "nobody is in the way")
			})
		})
	}
}

func TestAFailureThatIsNoLimitHoldsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{answer: func(int, time.Duration) (int, time.Duration, http.Header) {
			return http.StatusInternalServerError, 0, nil
		}}
		limits, err := ratelimit.NewClient(ratelimit.ClientConfig{})
		require.NoError(t, err)
		require.NoError(t, get(t.Context(), t, &http.Client{Transport: limits.Transport(v)}, "http://a.test/"))
		require.Len(t, v.starts, 1)
		require.Zero(t, limits.Cooldown().Stats())
	})
}

func TestA200WithNothingLeftHoldsTheKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{answer: func(n int, _ time.Duration) (int, time.Duration, http.Header) {
			return http.StatusOK, 0, http.Header{"Ratelimit": {[]string{`"burst";r=1;t=9`, `"burst";r=0;t=4, "day";r=7;t=3600`, ""}[n]}}
		}}
		c := newClient(t, ratelimit.ClientConfig{Key: func(req *http.Request) string { host, _ := client.Host(req); return host }}, v)
		for range 3 {
			require.NoError(t, get(t.Context(), t, c, "http://a.test/"))
		}
		require.Equal(t, []time.Duration{0, 0, 4 * time.Second}, v.starts)
	})
}

func TestFeedbackIsYours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{answer: func(int, time.Duration) (int, time.Duration, http.Header) {
			return http.StatusForbidden, 0, http.Header{"Retry-After": {"5"}, "X-Banned": {"yes"}}
		}}
		hold := func(cfg ratelimit.ClientConfig) time.Duration {
			limits, err := ratelimit.NewClient(cfg)
			require.NoError(t, err)
			require.NoError(t, get(t.Context(), t, &http.Client{Transport: limits.Transport(v)}, "http://a.test/"))
			until, held := limits.Cooldown().Until("a.test:80")
			if !held {
				return 0
			}
			return time.Until(until)
		}
		banned := func(resp *http.Response, now time.Time) time.Duration {
			if resp.Header.Get("X-Banned") != "" {
				return 3 * time.Hour
			}
			return ratelimit.DefaultFeedback(resp, now)
		}
		require.Equal(t, 5*time.Second, hold(ratelimit.ClientConfig{}), "Retry-After of a 403")
		require.Zero(t, hold(ratelimit.ClientConfig{Feedback: deaf}))
		require.Equal(t, 10*time.Minute, hold(ratelimit.ClientConfig{Feedback: banned}))
		require.Equal(t, 3*time.Hour, hold(ratelimit.ClientConfig{Feedback: banned, MaxHold: 4 * time.Hour}))
		require.Equal(t, time.Minute, hold(ratelimit.ClientConfig{Feedback: banned, MaxHold: time.Minute, Limiter: rate.NewLimiter(1, 1)}))
		v.answer = func(int, time.Duration) (int, time.Duration, http.Header) {
			return http.StatusTooManyRequests, 0, after("5")
		}
		require.Equal(t, 5*time.Second, hold(ratelimit.ClientConfig{}))
		require.Zero(t, hold(ratelimit.ClientConfig{Feedback: deaf}))
	})
}

func TestKeysAreHeldByKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := &vendor{answer: func(int, time.Duration) (int, time.Duration, http.Header) {
			return http.StatusTooManyRequests, 0, after("5")
		}}
		registry := &core.Registry{}
		limits, err := ratelimit.NewClient(ratelimit.ClientConfig{
			Name: "v", Registry: registry, MaxQueue: -1,
			Key: func(r *http.Request) string { return r.Header.Get("Account") },
		})
		require.NoError(t, err)
		_, err = ratelimit.NewClient(ratelimit.ClientConfig{Name: "v", Registry: registry})
		require.ErrorContains(t, err, "already registered")
		gate, ok := core.Lookup[*cooldown.Cooldown](registry, "v")
		require.True(t, ok)
		require.Same(t, limits.Cooldown(), gate)
		rt := limits.Transport(v)
		send := func(host, account string) error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, host, http.NoBody)
			require.NoError(t, err)
			req.Header.Set("Account", account)
			_, err = rt.RoundTrip(req)
			return err
		}
		require.NoError(t, send("http://a.test/", "1"))
		require.ErrorIs(t, send("http://b.test/", "1"), cooldown.ErrHeld, "nobody waits with this MaxQueue")
		require.NoError(t, send("http://a.test/", "2"))
		require.NoError(t, limits.Close())
		require.Empty(t, slices.Collect(registry.All()))
		require.ErrorIs(t, send("http://a.test/", "3"), core.ErrClosed)
	})
}

func TestMaxHoldIsValidated(t *testing.T) {
	t.Parallel()
	_, err := ratelimit.NewClient(ratelimit.ClientConfig{MaxHold: -1})
	require.ErrorIs(t, err, core.ErrConfig)
	require.ErrorContains(t, err, "ratelimit.ClientConfig.MaxHold = -1ns")
}

// A server that is not well yet is not asked by all who wait, one after the other.
func TestProbesThatFailAreASecondApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{}))
		var mu sync.Mutex
		var starts []time.Duration
		began := time.Now()
		rt := limits.Transport(roundTrip(func(*http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			starts = append(starts, time.Since(began))
			return nil, errors.New("refused")
		}))
		limits.Cooldown().Hold(t.Context(), "a.test:80", 3*time.Second)
		for range 20 {
			go func() { _, _ = rt.RoundTrip(core.Must(http.NewRequest(http.MethodGet, "http://a.test/", http.NoBody))) }()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []time.Duration{3 * time.Second, 4 * time.Second, 5 * time.Second}, starts[:3])
		require.LessOrEqual(t, len(starts), 8, "the others waited for MaxWait")
	})
}

func TestTokensThatAreGivenBackWhileOthersWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Limiter: rate.NewLimiter(1, 1)}))
		var mu sync.Mutex
		var sent []time.Duration
		began := time.Now()
		rt := limits.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/rejected" {
				return nil, core.ErrRejected
			}
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, time.Since(began))
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}))
		send := func(path string) {
			_, _ = rt.RoundTrip(core.Must(http.NewRequest(http.MethodGet, "http://a.test"+path, http.NoBody)))
		}
		for range 3 {
			go send("/") // at 0, 1 and 2 s
			synctest.Wait()
		}
		go send("/rejected") // at 3 s
		synctest.Wait()
		for range 2 {
			go send("/") // at 3 s, by the token that was not used, and at 4 s
			synctest.Wait()
		}
		time.Sleep(3500 * time.Millisecond)
		send("/")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second, 5 * time.Second}, sent)
	})
}

func TestNothingIsLeftOpenWhereAFunctionPanics(t *testing.T) {
	t.Parallel()
	upload, answer := resiltest.NewBody("upload"), resiltest.NewBody("answer")
	base := roundTrip(func(req *http.Request) (*http.Response, error) {
		_ = req.Body.Close()
		return &http.Response{StatusCode: http.StatusOK, Body: answer}, nil
	})
	send := func(cfg ratelimit.ClientConfig) {
		rt := core.Must(ratelimit.NewClient(cfg)).Transport(base)
		require.Panics(t, func() { _, _ = rt.RoundTrip(core.Must(http.NewRequest(http.MethodPut, "http://a.test/", upload))) })
	}
	send(ratelimit.ClientConfig{Key: func(*http.Request) string { panic("key") }})
	require.Equal(t, []int{1, 0}, []int{upload.Closes(), answer.Closes()})
	send(ratelimit.ClientConfig{Feedback: func(*http.Response, time.Time) time.Duration { panic("feedback") }})
	require.Equal(t, []int{2, 1}, []int{upload.Closes(), answer.Closes()})
}

func TestNoMoreTokensAreKeptThanABurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Limiter: rate.NewLimiter(1, 1)}))
		rt := limits.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/rejected" {
				time.Sleep(10 * time.Second)
				return nil, core.ErrRejected
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}))
		send := func(path string) {
			_, _ = rt.RoundTrip(core.Must(http.NewRequest(http.MethodGet, "http://a.test"+path, http.NoBody)))
		}
		for range 5 {
			go send("/rejected") // from 0 to 4 s, until 10 to 14 s
		}
		time.Sleep(time.Minute)
		start := time.Now()
		for range 3 { // one that came back, one of the limiter's own
			send("/")
		}
		require.Equal(t, time.Second, time.Since(start))
	})
}
