package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	coreretry "github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

const ms = time.Millisecond

func TestDrainingIsPartOfTheWait(t *testing.T) {
	t.Parallel()
	stalled := resiltest.Reply{Status: 503, Body: "x", Stall: -1}
	asking := resiltest.Reply{Status: 503, Body: "x", Stall: -1, Header: http.Header{"Retry-After": {"1"}}}
	slow := func(context.Context, *http.Response, error) (bool, error) { time.Sleep(300 * ms); return true, nil }
	for _, tt := range []struct {
		name     string
		reply    resiltest.Reply
		cfg      retry.Config
		deadline time.Duration
		wait     time.Duration // negative: there is no second attempt
	}{
		{"MaxElapsed", stalled, retry.Config{Backoff: backoff.Constant{Delay: 800 * ms}, MaxElapsed: time.Second}, 0, 800 * ms},
		{"deadline", stalled, retry.Config{Backoff: backoff.Constant{Delay: 800 * ms}}, time.Second, 800 * ms},
		{"no limit", stalled, retry.Config{Backoff: backoff.Constant{Delay: 800 * ms}}, 0, 800 * ms},
		{"a wait shorter than the draining", stalled, retry.Config{Backoff: backoff.Constant{Delay: 100 * ms}}, 0, 100 * ms},
		{"a long Drain", stalled, retry.Config{Backoff: backoff.Constant{Delay: 800 * ms}, Drain: client.Drain{Time: time.Hour}, MaxElapsed: time.Second}, 0, 800 * ms},
		{"Retry-After", asking, retry.Config{Backoff: backoff.Constant{}, MaxElapsed: 1100 * ms}, 0, time.Second},
		{"Retry-After and a slow CheckRetry", asking, retry.Config{Backoff: backoff.Constant{}, CheckRetry: slow}, 1100 * ms, time.Second},
		{"a slow CheckRetry", stalled, retry.Config{Backoff: backoff.Constant{Delay: 800 * ms}, CheckRetry: slow}, time.Second, 800 * ms},
		{"a CheckRetry slower than the wait", stalled, retry.Config{Backoff: backoff.Constant{Delay: 100 * ms}, CheckRetry: slow}, 400 * ms, 350 * ms},
		{"no wait", stalled, retry.Config{Backoff: backoff.Constant{}}, 0, 500 * time.Millisecond},
		{"no wait, a deadline", stalled, retry.Config{Backoff: backoff.Constant{}}, 400 * ms, 200 * ms},
		{"no wait, MaxElapsed", stalled, retry.Config{Backoff: backoff.Constant{}, MaxElapsed: 400 * ms}, 0, 200 * ms},
		{"no wait, nor time for a draining", stalled, retry.Config{Backoff: backoff.Constant{}, MaxElapsed: 1}, 0, 0},
		{"no draining", stalled, retry.Config{Backoff: backoff.Constant{}, Drain: client.Drain{Time: -1}}, 0, 0},
		{"reaches the deadline", stalled, retry.Config{Backoff: backoff.Constant{Delay: 800 * ms}}, 800 * ms, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if tt.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
				}
				defer cancel()
				s := resiltest.NewScript(tt.reply, status(200, 0))
				cfg := tt.cfg
				if check := cfg.CheckRetry; check != nil {
					cfg.CheckRetry = func(ctx context.Context, resp *http.Response, err error) (bool, error) {
						if resp != nil && resp.StatusCode == http.StatusOK {
							return false, nil
						}
						return check(ctx, resp, err)
					}
				}
				resp, err := do(t, quick(cfg), s, request(ctx, http.MethodGet, nil))
				require.NoError(t, err)
				if tt.wait < 0 {
					require.Equal(t, 503, resp.StatusCode, "the response is not lost")
					return
				}
				require.Equal(t, 200, resp.StatusCode)
				require.Equal(t, []time.Duration{tt.wait}, s.Waits())
			})
		})
	}
}

func TestAContextThatEndsInModifyRequestSendsNothing(t *testing.T) {
	t.Parallel()
	cause := errors.New("shutdown")
	for name, attempts := range map[string]int{"more attempts left": 3, "the last one": 2} {
		budget := core.Must(retry.NewBudget(0, 1))
		ctx, cancel := context.WithCancelCause(t.Context())
		b := resiltest.NewBody("body")
		p := quick(retry.Config{MaxAttempts: attempts, MaxBuffer: 100, Budget: budget, ModifyRequest: func(*http.Request, int) error { cancel(cause); return nil }})
		s := resiltest.NewScript(status(503, 9))
		resp, err := do(t, p, s, request(ctx, http.MethodPut, b))
		require.Nil(t, resp, name)
		require.ErrorIs(t, err, cause, name)
		canceled, ok := errors.AsType[*retry.Error](err)
		require.True(t, ok, name)
		require.Equal(t, 1, canceled.Attempts)
		e, ok := errors.AsType[*retry.StatusError](err)
		require.True(t, ok)
		require.Equal(t, 503, e.StatusCode)
		require.Equal(t, 1, s.Calls(), name)
		require.Equal(t, []int{1}, s.Closes())
		require.Equal(t, 1, b.Closes())
		require.Equal(t, 1, budget.Left(), "the retry was not made")
	}
}

func TestAnAttemptThatWasMadeIsNotARejectionWhenModifyRequestIsCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := quick(retry.Config{RetryRejected: true, ModifyRequest: func(_ *http.Request, retry int) error {
		if retry == 2 {
			cancel()
		}
		return nil
	}})
	_, err := do(t, p, resiltest.NewScript(status(503, 0), resiltest.Reply{Err: core.ErrRejected}), request(ctx, http.MethodGet, nil))
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, core.ErrRejected)
}

func TestRequestCancelEndsRetries(t *testing.T) {
	t.Parallel()
	long := retry.Config{Backoff: backoff.Constant{Delay: time.Hour}}
	for _, tt := range []struct {
		name  string
		cfg   retry.Config
		base  func(cancel func()) http.RoundTripper
		calls int
		took  time.Duration
	}{
		{"beforehand", long, func(cancel func()) http.RoundTripper { cancel(); return nil }, 0, 0},
		{"in an attempt that fails", long, func(cancel func()) http.RoundTripper {
			return roundTrip(func(*http.Request) (*http.Response, error) { cancel(); return nil, io.ErrUnexpectedEOF })
		}, 1, 0},
		{"in the wait", long, func(cancel func()) http.RoundTripper { time.AfterFunc(time.Minute, cancel); return nil }, 1, time.Minute},
		{"in the draining", retry.Config{Backoff: backoff.Constant{Delay: time.Hour}, Drain: client.Drain{Time: time.Hour}}, func(cancel func()) http.RoundTripper {
			time.AfterFunc(time.Minute, cancel)
			return resiltest.NewScript(resiltest.Reply{Status: 503, Body: "x", Stall: -1})
		}, 1, time.Minute},
		{"in ModifyRequest", retry.Config{}, func(cancel func()) http.RoundTripper { time.AfterFunc(time.Minute, cancel); return nil }, 1, time.Hour},
		{"in CheckRetry", retry.Config{CheckRetry: func(context.Context, *http.Response, error) (bool, error) { time.Sleep(time.Hour); return true, nil }}, func(cancel func()) http.RoundTripper { time.AfterFunc(time.Minute, cancel); return nil }, 1, time.Hour},
		{"in Delay", retry.Config{Delay: func(ctx context.Context, _ retry.Info) time.Duration { <-ctx.Done(); return 0 }}, func(cancel func()) http.RoundTripper { time.AfterFunc(time.Minute, cancel); return nil }, 1, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start, stop, calls := time.Now(), make(chan struct{}), 0
				base := tt.base(func() { close(stop) })
				if base == nil {
					base = resiltest.NewScript(status(503, 9))
				}
				if tt.name == "in ModifyRequest" {
					tt.cfg.ModifyRequest = func(*http.Request, int) error { time.Sleep(time.Hour); return nil }
				}
				req := get(t)
				req.Cancel = stop //nolint:staticcheck // it is what is tested
				p := quick(tt.cfg)
				_, err := do(t, p, roundTrip(func(req *http.Request) (*http.Response, error) {
					calls++
					return base.RoundTrip(req)
				}), req)
				if tt.name == "in an attempt that fails" || tt.name == "in CheckRetry" || tt.name == "in Delay" {
					require.NotErrorIs(t, err, context.DeadlineExceeded) // the attempt's own, or its response
				} else {
					require.ErrorIs(t, err, context.Canceled)
				}
				require.Equal(t, tt.calls, calls)
				require.Equal(t, tt.took, time.Since(start))
			})
		})
	}
}

// http.Client sets Cancel for a Timeout.
func TestTheTimeoutOfAnHTTPClientIsADeadlineOfTheRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := resiltest.NewScript(resiltest.Reply{Status: 503, Body: "x", Stall: -1})
		p := quick(retry.Config{MaxAttempts: 9, Backoff: backoff.Constant{Delay: 400 * ms}})
		c := &http.Client{Transport: p.Transport(s), Timeout: time.Second}
		resp, err := c.Get("http://example.test/")
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode, "no wait is begun that reaches it")
		require.NoError(t, resp.Body.Close())
		require.Equal(t, []time.Duration{400 * ms, 400 * ms}, s.Waits())
	})
}

func TestOneAttemptSuppressesNothing(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		method string
		base   http.RoundTripper
		body   io.ReadCloser
	}{
		"rejected":            {http.MethodGet, resiltest.NewScript(resiltest.Reply{Err: core.ErrRejected}), nil},
		"rejected by status":  {http.MethodGet, resiltest.NewScript(reject(core.ErrRejected)), nil},
		"POST":                {http.MethodPost, resiltest.NewScript(resiltest.Reply{Err: io.ErrUnexpectedEOF}), nil},
		"a body that is read": {http.MethodPut, resiltest.NewScript(resiltest.Reply{Err: io.ErrUnexpectedEOF}), resiltest.NewBody("x")},
		"Retry-After":         {http.MethodGet, resiltest.NewScript(status(503, 0, "Retry-After: 9999")), nil},
	} {
		suppressed := 0
		p := quick(retry.Config{MaxAttempts: 1, Registry: listened(func(verdict string, _ registry.Event) {
			if verdict == "suppressed" {
				suppressed++
			}
		})})
		req := request(t.Context(), tt.method, nil)
		req.Body = tt.body
		_, err := do(t, p, tt.base, req)
		require.NotContains(t, fmt.Sprint(err), "was not repeated", name)
		require.Zero(t, suppressed, name)
		s := p.Stats()
		require.Zero(t, s.Suppressed[coreretry.Rejected]+s.Suppressed[coreretry.NotReplayable]+s.Suppressed[coreretry.RetryAfterTooLong]+s.Suppressed[coreretry.Canceled], name)
	}
}

// Callers who were told one time come back after it, and not at one instant.
func TestToldWaitIsSpread(t *testing.T) {
	t.Parallel()
	const told, callers = 10 * time.Second, 200
	jittered := backoff.Exponential{Delay: 2 * time.Second, Jitter: 0.5} // from 1 s to 2 s
	for name, tt := range map[string]struct {
		cfg         retry.Config
		deadline    time.Duration
		least, most time.Duration // after what was told
		calls       int           // for each caller
	}{
		"backoff":         {retry.Config{Backoff: jittered}, time.Hour, 0, time.Second, 2},
		"default":         {retry.Config{}, time.Hour, 0, 250 * time.Millisecond, 2},
		"above Max":       {retry.Config{Backoff: backoff.Exponential{Delay: 2 * time.Second, Jitter: 0.5, Max: 2 * time.Second}}, time.Hour, 0, time.Second, 2},
		"no jitter":       {retry.Config{Backoff: backoff.Constant{Delay: time.Second}}, time.Hour, 0, 0, 2},
		"Delay":           {retry.Config{Delay: func(context.Context, retry.Info) time.Duration { return 2 * time.Second }}, time.Hour, 0, 2 * time.Second, 2},
		"near deadline":   {retry.Config{Backoff: jittered}, told + time.Second, 0, time.Second, 2},
		"near MaxElapsed": {retry.Config{Backoff: jittered, MaxElapsed: told + time.Second}, time.Hour, 0, time.Second, 2},
		"deadline":        {retry.Config{Backoff: jittered}, told, 0, 0, 1},
		"MaxRetryAfter":   {retry.Config{Backoff: jittered, MaxRetryAfter: told}, time.Hour, 0, time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := core.Must(retry.New(tt.cfg))
				var mu sync.Mutex
				var again []time.Duration
				var all sync.WaitGroup
				for range callers {
					all.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
						defer cancel()
						s := resiltest.NewScript(status(429, 0, "Retry-After: 10"), status(200, 0))
						_, err := do(t, p, s, get(t).WithContext(ctx))
						require.NoError(t, err)
						mu.Lock()
						again = append(again, s.Waits()...)
						mu.Unlock()
						require.Equal(t, tt.calls, s.Calls())
					})
				}
				all.Wait()
				if tt.calls == 1 {
					return
				}
				first, last := slices.Min(again), slices.Max(again)
				require.GreaterOrEqual(t, first, told+tt.least)
				require.LessOrEqual(t, last, told+tt.most)
				require.GreaterOrEqual(t, last-first, (tt.most-tt.least)*8/10)
			})
		})
	}
}
