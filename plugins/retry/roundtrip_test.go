package retry_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	coreretry "github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

func TestDiscardedBodiesAreClosedBeforeTheNextAttempt(t *testing.T) {
	t.Parallel()
	s := resiltest.NewScript(
		status(503, 1<<20),
		status(503, 1<<20),
		status(200, 2),
	)
	resp, err := quick(retry.Config{}).Transport(s).RoundTrip(get(t))
	require.NoError(t, err)
	require.Equal(t, []int{1, 1, 0}, s.Closes())
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Len(t, b, 2)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, []int{1, 1, 1}, s.Closes())
}

func TestEndlessErrorBody(t *testing.T) {
	t.Parallel()
	for _, drain := range []client.Drain{{}, {Bytes: 100}} {
		s := resiltest.NewScript(resiltest.Reply{Status: 503, Endless: true}, status(200, 0))
		resp, err := do(t, quick(retry.Config{Drain: drain}), s, get(t))
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		b := s.Attempts()[0].Response
		require.LessOrEqual(t, b.BytesRead(), int64(64<<10)+1)
		require.Equal(t, 1, b.Closes())
	}
}

func TestPostWantsAKey(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("upload", 1000)
	for name, tc := range map[string]struct {
		header string
		cfg    retry.Config
		want   int
	}{
		"no key":          {"", retry.Config{}, 1},
		"key":             {"Idempotency-Key", retry.Config{}, 3},
		"x key":           {"X-Idempotency-Key", retry.Config{}, 3},
		"key, own list":   {"Idempotency-Key", retry.Config{Methods: []string{"GET"}}, 3},
		"any method":      {"", retry.Config{AnyMethod: true}, 3},
		"listed":          {"", retry.Config{Methods: []string{"POST"}}, 3},
		"not listed":      {"", retry.Config{Methods: []string{"PUT"}}, 1},
		"own CheckRetry":  {"", retry.Config{CheckRetry: func(context.Context, *http.Response, error) (bool, error) { return true, nil }}, 1},
		"too many to try": {"Idempotency-Key", retry.Config{MaxAttempts: 2}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := resiltest.NewScript(status(503, 10), status(500, 10))
			req := request(t.Context(), http.MethodPost, strings.NewReader(content))
			if tc.header != "" {
				req.Header.Set(tc.header, "order-17")
			}
			p := quick(tc.cfg)
			resp, err := do(t, p, s, req)
			require.NoError(t, err)
			require.Equal(t, tc.want, s.Calls())
			require.GreaterOrEqual(t, resp.StatusCode, 500)
			for _, a := range s.Attempts() {
				require.Equal(t, content, a.Body)
				require.EqualValues(t, len(content), a.Request.ContentLength)
			}
			if tc.want == 1 {
				require.EqualValues(t, 1, p.Stats().Suppressed[coreretry.NotReplayable])
			}
		})
	}
	s := resiltest.NewScript(status(503, 0))
	_, err := do(t, quick(retry.Config{Methods: []string{"GET"}}), s, &http.Request{URL: get(t).URL, Header: http.Header{}})
	require.NoError(t, err)
	require.Equal(t, 3, s.Calls(), "no method is GET")
	s = resiltest.NewScript(status(503, 0))
	_, err = do(t, quick(retry.Config{Methods: []string{}}), s, get(t))
	require.NoError(t, err)
	require.Equal(t, 1, s.Calls(), "an empty list has none")
}

func TestTheCallersBodyIsClosedOnce(t *testing.T) {
	t.Parallel()
	rejected := errors.New("x")
	cancelled := func(t *testing.T) context.Context {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return ctx
	}
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		cfg      retry.Config
		override func(*retry.Config)
		steps    []resiltest.Reply
		getBody  func() (io.ReadCloser, error)
		ctx      func(*testing.T) context.Context
		wantErr  error
		status   int
		panics   bool
		attempts int
	}{
		"success":            {steps: []resiltest.Reply{status(200, 0)}, status: 200, attempts: 1},
		"success at last":    {cfg: retry.Config{MaxBuffer: 100}, steps: []resiltest.Reply{status(503, 0), status(503, 0), status(200, 0)}, status: 200, attempts: 3},
		"exhausted":          {cfg: retry.Config{MaxBuffer: 100}, steps: []resiltest.Reply{status(503, 0)}, status: 503, attempts: 3},
		"error at last":      {cfg: retry.Config{MaxBuffer: 100}, steps: []resiltest.Reply{{Err: broken}}, wantErr: broken, attempts: 3},
		"not replayable":     {steps: []resiltest.Reply{status(503, 0)}, status: 503, attempts: 1},
		"not retryable":      {steps: []resiltest.Reply{status(404, 0)}, status: 404, attempts: 1},
		"one attempt":        {cfg: retry.Config{MaxAttempts: 1}, steps: []resiltest.Reply{status(503, 0)}, status: 503, attempts: 1},
		"rejected by error":  {steps: []resiltest.Reply{{Err: errors.Join(rejected, core.ErrRejected)}}, wantErr: rejected, attempts: 1},
		"rejected by status": {steps: []resiltest.Reply{reject(core.ErrRejected)}, status: 503, attempts: 1},
		"context done":       {ctx: cancelled, wantErr: context.Canceled},
		"GetBody fails, response": {
			steps: []resiltest.Reply{status(503, 7)}, status: 503, attempts: 1,
			getBody: func() (io.ReadCloser, error) { return nil, broken },
		},
		"GetBody fails, error": {
			steps: []resiltest.Reply{{Err: io.ErrUnexpectedEOF}}, wantErr: broken, attempts: 1,
			getBody: func() (io.ReadCloser, error) { return nil, broken },
		},
		"transport panics": {steps: []resiltest.Reply{{Panic: "boom"}}, panics: true, attempts: 1},
		"transport panics later": {
			cfg: retry.Config{MaxBuffer: 100}, panics: true, attempts: 2,
			steps: []resiltest.Reply{status(503, 0), {Panic: "boom"}},
		},
		"CheckRetry panics": {
			cfg:   retry.Config{CheckRetry: func(context.Context, *http.Response, error) (bool, error) { panic("boom") }},
			steps: []resiltest.Reply{status(503, 0)}, panics: true, attempts: 1,
		},
		"ModifyRequest fails": {
			cfg:   retry.Config{MaxBuffer: 100, ModifyRequest: func(*http.Request, int) error { return broken }},
			steps: []resiltest.Reply{status(503, 0)}, wantErr: broken, attempts: 1,
		},
		"ModifyRequest replaces the body": {
			cfg: retry.Config{MaxBuffer: 100, ModifyRequest: func(req *http.Request, _ int) error { req.Body = http.NoBody; return nil }}, attempts: 3,
			steps: []resiltest.Reply{status(503, 0)}, status: 503,
		},
		"bad override": {override: func(c *retry.Config) { c.MaxAttempts = -1 }, wantErr: core.ErrConfig},
		"CheckRetry's own error": {
			cfg:   retry.Config{CheckRetry: func(context.Context, *http.Response, error) (bool, error) { return false, broken }},
			steps: []resiltest.Reply{status(200, 0)}, wantErr: broken, attempts: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := resiltest.NewBody("upload")
			ctx := t.Context()
			if tc.ctx != nil {
				ctx = tc.ctx(t)
			}
			p := quick(tc.cfg)
			if tc.override != nil {
				ctx = p.Override(ctx, tc.override)
			}
			req := request(ctx, http.MethodPut, b)
			req.GetBody = tc.getBody
			s := resiltest.NewScript(tc.steps...)
			if tc.panics {
				require.PanicsWithValue(t, "boom", func() { _, _ = do(t, p, s, req) })
			} else {
				resp, err := do(t, p, s, req)
				require.ErrorIs(t, err, tc.wantErr)
				if tc.wantErr == nil {
					require.Equal(t, tc.status, resp.StatusCode)
				}
			}
			require.Equal(t, tc.attempts, s.Calls())
			require.Equal(t, 1, b.Closes())
			for i, n := range s.Closes() {
				require.EqualValues(t, 1, n, "response %d", i)
			}
		})
	}
}

func reject(err error) resiltest.Reply {
	return resiltest.Reply{Do: func(req *http.Request) (*http.Response, error) {
		return client.Reject(req, http.StatusServiceUnavailable, err), nil
	}}
}

func TestPanickingTransport(t *testing.T) {
	t.Parallel()
	s := resiltest.NewScript(resiltest.Reply{Panic: http.ErrAbortHandler}, status(200, 0))
	p := quick(retry.Config{})
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { _, _ = p.Transport(s).RoundTrip(get(t)) })
	resp, err := do(t, p, s, get(t))
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
}

func TestCancelInTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("the user left")
		ctx, cancel := context.WithCancelCause(t.Context())
		b := resiltest.NewBody("upload")
		s := resiltest.NewScript(status(503, 100))
		req := request(ctx, http.MethodPut, b)
		p := core.Must(retry.New(retry.Config{Backoff: backoff.Constant{Delay: time.Hour}, MaxBuffer: 10}))
		start := time.Now()
		time.AfterFunc(time.Minute, func() { cancel(why) })
		_, err := do(t, p, s, req)
		require.Equal(t, time.Minute, time.Since(start), "at once")
		require.ErrorIs(t, err, why)
		last, ok := errors.AsType[*retry.StatusError](err)
		require.True(t, ok)
		require.Equal(t, 503, last.StatusCode)
		_, ok = errors.AsType[*retry.Error](err)
		require.True(t, ok)
		require.Equal(t, []int{1}, s.Closes())
		require.Equal(t, 1, b.Closes())

		ctx, plain := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, plain)
		_, err = do(t, p, s, request(ctx, http.MethodGet, nil))
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestAttemptTimeoutIsNotTheCallersDeadline(t *testing.T) {
	t.Parallel()
	hangs := resiltest.Reply{Delay: -1}
	perAttempt := func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			ctx, cancel := context.WithTimeoutCause(req.Context(), 50*time.Millisecond, bound{})
			defer cancel()
			return next.RoundTrip(req.WithContext(ctx))
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s := resiltest.NewScript(hangs, hangs, status(200, 0))
		resp, err := do(t, quick(retry.Config{}), perAttempt(s), request(ctx, http.MethodGet, nil))
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.Equal(t, 3, s.Calls())

		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		s = resiltest.NewScript(hangs, status(200, 0))
		_, err = do(t, quick(retry.Config{}), perAttempt(s), request(ctx, http.MethodGet, nil))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, s.Calls())
	})
}

func TestRetryAfterIsAFloor(t *testing.T) {
	t.Parallel()
	for _, code := range []int{429, 503} {
		for want, wait := range map[time.Duration]backoff.Strategy{
			2 * time.Second: backoff.Constant{Delay: time.Second},
			5 * time.Second: backoff.Constant{Delay: 5 * time.Second},
		} {
			synctest.Test(t, func(t *testing.T) {
				s := resiltest.NewScript(status(code, 0, "Retry-After: 2"), status(200, 0))
				p := core.Must(retry.New(retry.Config{Backoff: wait}))
				resp, err := do(t, p, s, get(t))
				require.NoError(t, err)
				require.Equal(t, 200, resp.StatusCode)
				require.Equal(t, []time.Duration{want}, s.Waits())
			})
		}
	}
}

func TestPastDateLeavesTheBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		future := time.Now().UTC().Add(10 * time.Second).Format(http.TimeFormat)
		s := resiltest.NewScript(
			status(503, 0, "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT"),
			status(503, 0, "Retry-After: -5"),
			status(503, 0, "Retry-After: "+future),
			status(200, 0),
		)
		_, err := do(t, core.Must(retry.New(retry.Config{MaxAttempts: 4, Backoff: backoff.Constant{Delay: time.Second}})), s, get(t))
		require.NoError(t, err)
		require.Equal(t, []time.Duration{time.Second, time.Second, 9 * time.Second}, s.Waits())
	})
}

func TestRetryAfterOutOfReachReturnsTheResponse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		value   string
		cfg     retry.Config
		timeout time.Duration
		again   bool
	}{
		"a century":               {"99999999999", retry.Config{}, 0, false},
		"MaxInt64":                {"9223372036854775807", retry.Config{}, 0, false},
		"above the default":       {"121", retry.Config{}, 0, false},
		"just the default":        {"120", retry.Config{}, 0, true},
		"above the cap":           {"11", retry.Config{MaxRetryAfter: 10 * time.Second}, 0, false},
		"past MaxElapsed":         {"60", retry.Config{MaxElapsed: 30 * time.Second}, 0, false},
		"past the deadline":       {"60", retry.Config{}, 30 * time.Second, false},
		"a longer cap":            {"3600", retry.Config{MaxRetryAfter: 2 * time.Hour}, 0, true},
		"no limit worth the name": {"99999", retry.Config{MaxRetryAfter: math.MaxInt64}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tc.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.timeout)
					defer cancel()
				}
				s := resiltest.NewScript(status(503, 5, "Retry-After: "+tc.value), status(200, 0))
				p := quick(tc.cfg)
				start := time.Now()
				resp, err := p.Transport(s).RoundTrip(request(ctx, http.MethodGet, nil))
				require.NoError(t, err)
				if tc.again {
					require.Equal(t, 200, resp.StatusCode)
					return
				}
				require.Zero(t, time.Since(start), "at once")
				require.Equal(t, 503, resp.StatusCode)
				b, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Len(t, b, 5, "the body is the caller's")
				require.EqualValues(t, 1, p.Stats().Suppressed[coreretry.RetryAfterTooLong])
			})
		})
	}
}

func TestRetryAfterIsNoReasonToRetry(t *testing.T) {
	t.Parallel()
	for _, code := range []int{200, 201, 301, 307, 404, 413} {
		synctest.Test(t, func(t *testing.T) {
			s := resiltest.NewScript(status(code, 0, "Retry-After: 5"))
			start := time.Now()
			resp, err := do(t, quick(retry.Config{}), s, get(t))
			require.NoError(t, err)
			require.Equal(t, code, resp.StatusCode)
			require.Equal(t, 1, s.Calls())
			require.Zero(t, time.Since(start))
		})
	}
}

func TestStatusesByDefault(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]int{
		400: 1, 401: 1, 403: 1, 404: 1, 405: 1, 409: 1, 410: 1, 421: 1, 422: 1, 501: 1, 505: 1, 600: 1, 999: 1,
		408: 2, 425: 2,
		429: 4, 500: 4, 502: 4, 503: 4, 504: 4, 507: 4, 599: 4,
	} {
		s := resiltest.NewScript(status(code, 100))
		resp, err := do(t, quick(retry.Config{MaxAttempts: 4}), s, get(t))
		require.NoError(t, err)
		require.Equal(t, code, resp.StatusCode)
		require.Equal(t, want, s.Calls(), code)
		if code == 408 {
			require.Zero(t, s.Attempts()[0].Response.BytesRead(), "its connection is not used again")
		}
	}
}

func TestOneAttemptIsAPassThrough(t *testing.T) {
	b := resiltest.NewBody("upload")
	req := request(t.Context(), http.MethodPost, b)
	p := quick(retry.Config{MaxAttempts: 1, MaxBuffer: 1 << 20})
	base := roundTrip(stub)
	require.LessOrEqual(t, mallocs(t, p.Transport(base), req)-mallocs(t, base, req), 2.1)
	require.Zero(t, b.BytesRead(), "nothing is buffered")
}

func TestRejectionsAreNotRetried(t *testing.T) {
	t.Parallel()
	asking := &limited{wait: 3 * time.Second}
	synctest.Test(t, func(t *testing.T) {
		for name, s := range map[string]*resiltest.Script{
			"error":    resiltest.NewScript(resiltest.Reply{Err: asking}),
			"response": resiltest.NewScript(reject(asking)),
		} {
			start := time.Now()
			p := core.Must(retry.New(retry.Config{}))
			resp, err := do(t, p, s, request(t.Context(), http.MethodPost, resiltest.NewBody("x")))
			if resp == nil {
				require.Equal(t, asking, err, name)
			} else {
				require.Equal(t, asking, client.Rejected(resp), name)
			}
			require.Equal(t, 1, s.Calls(), name)
			require.Zero(t, time.Since(start), name)
			require.EqualValues(t, 1, p.Stats().Suppressed[coreretry.Rejected], name)
		}
		// unless it is asked for, and then not before it says; a POST too, for none was sent
		for _, first := range []resiltest.Reply{{Err: asking}, reject(asking)} {
			s := resiltest.NewScript(first, status(200, 0))
			req := request(t.Context(), http.MethodPost, strings.NewReader("x"))
			resp, err := do(t, quick(retry.Config{RetryRejected: true}), s, req)
			require.NoError(t, err)
			require.Equal(t, 200, resp.StatusCode)
			require.Equal(t, []time.Duration{3 * time.Second}, s.Waits())

			s = resiltest.NewScript(first, status(200, 0))
			_, err = do(t, quick(retry.Config{RetryRejected: true, MaxRetryAfter: time.Second}), s, get(t))
			require.True(t, err == nil || errors.Is(err, asking))
			require.Equal(t, 1, s.Calls())
		}
	})
}

type limited struct{ wait time.Duration }

func (l *limited) Error() string             { return "ratelimit: limited" }
func (l *limited) Is(target error) bool      { return target == core.ErrRejected }
func (l *limited) RetryAfter() time.Duration { return l.wait }

func TestAStreamThatWasReadIsNotSentAgain(t *testing.T) {
	t.Parallel()
	retried := 0
	p := quick(retry.Config{MaxBuffer: 5, OnRetry: func(context.Context, retry.Retry) { retried++ }})
	s := resiltest.NewScript(resiltest.Reply{Err: io.ErrUnexpectedEOF})
	_, err := do(t, p, s, request(t.Context(), http.MethodPut, resiltest.NewBody("upload")))
	require.ErrorIs(t, err, client.ErrNotReplayable)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.EqualError(t, err, "retry: PUT was not repeated (client: request body cannot be sent again): unexpected EOF")
	require.Equal(t, 1, s.Calls())
	require.Zero(t, retried)
	require.EqualValues(t, 1, p.Stats().Suppressed[coreretry.NotReplayable])

	s = resiltest.NewScript(resiltest.Reply{Err: io.ErrUnexpectedEOF}, status(200, 0))
	_, err = do(t, p, s, request(t.Context(), http.MethodPut, resiltest.NewBody("short")))
	require.NoError(t, err)
	require.Equal(t, "short", s.Attempts()[1].Body)
}

func TestTimeoutsStayTimeoutsForNetHTTP(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST"} {
		s := resiltest.NewScript(resiltest.Reply{Err: bound{}})
		c := &http.Client{Transport: quick(retry.Config{}).Transport(s)}
		_, err := c.Do(request(t.Context(), method, strings.NewReader("x")))
		require.ErrorIs(t, err, bound{})
		require.True(t, os.IsTimeout(err), "%v", err)
	}
}
