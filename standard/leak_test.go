package standard_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	corelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/standard"
)

func TestTheCallersBodyIsClosedOnceHoweverItEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg      standard.Config
		reply    resiltest.Reply
		getBody  func() (io.ReadCloser, error)
		cancel   bool
		before   int // requests
		failure  error
		attempts int
	}{
		"success":       {attempts: 1},
		"reset":         {reply: resiltest.Reply{Reset: true}, failure: syscall.ECONNRESET, attempts: 1},
		"breaker open":  {cfg: standard.Config{Breaker: breaker.Config{Initial: breaker.ForcedOpen}}, failure: breaker.ErrOpen},
		"limited":       {cfg: standard.Config{Limit: ratelimit.ClientConfig{Limit: ratelimit.PerHour(1), MaxWait: time.Second}}, before: 1, failure: corelimit.ErrLimited, attempts: 1},
		"canceled":      {cancel: true, failure: context.Canceled},
		"bad settings":  {cfg: standard.Config{Name: "bad"}, failure: core.ErrConfig},
		"timeout":       {reply: resiltest.Reply{Delay: -1}, failure: timeout.ErrTimeout, attempts: 1},
		"GetBody fails": {reply: resiltest.Reply{Status: 503}, getBody: func() (io.ReadCloser, error) { return nil, io.ErrNoProgress }, attempts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				script := resiltest.NewScript(c.reply)
				tr := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), script).Transport()
				c.cfg.HTTP.Transport = resiltest.Count(t, tr)
				client := newClient(t, c.cfg)
				send := func() (*resiltest.Body, error) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if c.cancel {
						cancel()
					}
					if name == "bad settings" {
						ctx = client.Retry.Override(ctx, func(r *retry.Config) { r.MaxAttempts = -1 })
					}
					body := resiltest.NewBody("upload")
					req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://a.test/", body)
					require.NoError(t, err)
					req.GetBody = c.getBody
					resp, err := client.Pipeline.RoundTrip(req)
					if err == nil {
						require.NoError(t, resp.Body.Close())
					}
					return body, err
				}
				for range c.before {
					_, err := send()
					require.NoError(t, err)
				}
				body, err := send()
				require.ErrorIs(t, err, c.failure)
				synctest.Wait()
				require.Equal(t, 1, body.Closes())
				require.Equal(t, c.attempts, script.Calls())
			})
		})
	}
}

func TestNoGoroutineIsLeftWhileTheCallersContextLives(t *testing.T) {
	t.Parallel()
	checkGoroutines(t, 200)
}

func checkGoroutines(t *testing.T, requests int) {
	t.Helper()
	test := func(t *testing.T, li net.Listener, wait time.Duration) {
		t.Helper()
		resiltest.Goroutines(t)
		parent, end := context.WithCancel(context.WithoutCancel(t.Context()))
		t.Cleanup(end)
		s := resiltest.NewScript()
		srv := resiltest.Serve(t, li, s)
		base := resiltest.Count(t, srv.Transport())
		c := newClient(t, standard.Config{
			HTTP:    http.Client{Transport: base},
			Retry:   retry.Config{MaxAttempts: 2},
			Breaker: breaker.Config{Failures: -1, FailureRate: -1},
		})
		ends := []struct {
			reply   resiltest.Reply
			failure error
			cancel  bool
		}{
			{reply: resiltest.Reply{Body: "fine"}},
			{reply: resiltest.Reply{Status: 503, Body: "busy"}},
			{reply: resiltest.Reply{Delay: -1}, cancel: true, failure: context.Canceled},
			{reply: resiltest.Reply{Body: "never", Stall: -1}}, // is closed, not read to its end
			{reply: resiltest.Reply{Reset: true}, failure: syscall.ECONNRESET},
			{reply: resiltest.Reply{Delay: -1}, failure: context.DeadlineExceeded},
		}
		for n := range requests {
			e := ends[n%(len(ends)-1)]
			if n%100 == 99 { // which takes long
				e = ends[len(ends)-1]
			}
			s.Set(e.reply)
			ctx := parent // most have no context of their own, and that one goes on
			if e.cancel {
				var cancel context.CancelFunc
				ctx, cancel = context.WithCancel(parent)
				time.AfterFunc(wait/100, cancel)
			}
			if errors.Is(e.failure, context.DeadlineExceeded) {
				ctx = c.Attempt.Override(ctx, func(a *timeout.Config) { a.Limit = wait })
			}
			ctx = c.Retry.Override(ctx, func(r *retry.Config) { r.Backoff = backoff.Constant{} })
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)
			require.NoError(t, err)
			resp, err := c.Do(req)
			if err == nil {
				require.NoError(t, resp.Body.Close())
			}
			require.ErrorIs(t, err, e.failure)
		}
		t.Logf("%d attempts, %d bodies", base.Counts().Requests, base.Counts().Opened)
	}
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { test(t, resiltest.NewNetwork().Listen(""), time.Second) })
	})
	t.Run("over sockets", func(t *testing.T) {
		t.Parallel()
		test(t, core.Must(net.Listen("tcp", "127.0.0.1:0")), 100*time.Millisecond)
	})
}

func TestAWaitPastTheDeadlineIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := resiltest.NewScript()
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), script)
		c := newClient(t, standard.Config{
			HTTP:  http.Client{Transport: resiltest.Count(t, srv.Transport())},
			Total: timeout.Config{Limit: -1},
			Limit: ratelimit.ClientConfig{Limit: ratelimit.TokenBucket(1, time.Minute, 1), MaxWait: -1},
		})
		for n, within := range []time.Duration{time.Hour, 59 * time.Second, time.Nanosecond, time.Minute + time.Nanosecond} {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)
			require.NoError(t, err)
			start := time.Now()
			resp, err := c.Do(req)
			if err == nil {
				require.NoError(t, resp.Body.Close())
			}
			cancel()
			if n == 0 || n == 3 {
				require.NoError(t, err, "it is its turn in time")
				require.Equal(t, map[int]time.Duration{3: time.Minute}[n], time.Since(start))
				continue
			}
			require.Zero(t, time.Since(start), "at once")
			require.ErrorIs(t, err, corelimit.ErrLimited)
			require.ErrorIs(t, err, core.ErrRejected)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			wait, ok := core.RetryAfter(err)
			require.True(t, ok)
			require.Equal(t, time.Minute, wait)
		}
		require.Equal(t, 2, script.Calls())
	})
}
