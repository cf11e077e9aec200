package retry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	coreretry "github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

func TestCheckRetryOfGoRetryablehttpPlugsIn(t *testing.T) {
	t.Parallel()
	reset := errors.New("reset")
	for name, check := range map[string]retryablehttp.CheckRetry{
		"DefaultRetryPolicy":         retryablehttp.DefaultRetryPolicy,
		"ErrorPropagatedRetryPolicy": retryablehttp.ErrorPropagatedRetryPolicy,
		"ours":                       retry.DefaultCheckRetry,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := quick(retry.Config{CheckRetry: check})
			s := resiltest.NewScript(status(503, 0), resiltest.Reply{Err: reset}, status(200, 0))
			resp, err := do(t, p, s, get(t))
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode)

			s = resiltest.NewScript(status(503, 3))
			resp, err = p.Transport(s).RoundTrip(get(t))
			require.NoError(t, err, "the last response, not an error that hides it")
			require.Equal(t, 503, resp.StatusCode)
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Len(t, b, 3)
			require.Equal(t, 3, s.Calls())

			scheme := errors.New(`unsupported protocol scheme "ftp"`) // which it finds in a *url.Error only
			s = resiltest.NewScript(resiltest.Reply{Err: scheme})
			_, err = do(t, p, s, get(t))
			require.Equal(t, scheme, err, "bare: http.Client wraps it again")
			require.Equal(t, 1, s.Calls())
		})
	}
}

func TestCheckRetryGetsWhatHTTPClientReturns(t *testing.T) {
	t.Parallel()
	reset := errors.New("reset")
	var got []error
	p := quick(retry.Config{MaxAttempts: 2, CheckRetry: func(_ context.Context, resp *http.Response, err error) (bool, error) {
		require.Nil(t, resp)
		got = append(got, err)
		return true, nil
	}})
	req := request(t.Context(), http.MethodPut, nil)
	req.URL.User = url.UserPassword("me", "secret")
	_, err := do(t, p, resiltest.NewScript(resiltest.Reply{Err: reset}), req)
	require.Equal(t, reset, err)
	require.Len(t, got, 2)
	require.Equal(t, &url.Error{Op: "Put", URL: "http://me:xxxxx@example.test/x?y=1", Err: reset}, got[0])
}

func TestCheckRetryMayAnswerForTheResult(t *testing.T) {
	t.Parallel()
	own := errors.New("the body says no")
	p := quick(retry.Config{CheckRetry: func(_ context.Context, _ *http.Response, err error) (bool, error) {
		if err != nil {
			return false, errors.Join(own, err)
		}
		return false, own
	}})
	s := resiltest.NewScript(status(200, 5))
	resp, err := do(t, p, s, get(t))
	require.Nil(t, resp)
	require.Equal(t, own, err)
	require.Equal(t, []int{1}, s.Closes())
	reset := errors.New("reset")
	_, err = do(t, p, resiltest.NewScript(resiltest.Reply{Err: reset}), get(t))
	require.ErrorIs(t, err, own)
	require.ErrorIs(t, err, reset)
}

func TestNobodyIsAskedOnceTheContextIsDone(t *testing.T) {
	t.Parallel()
	asked := 0
	p := quick(retry.Config{CheckRetry: func(context.Context, *http.Response, error) (bool, error) { asked++; return true, nil }})
	for want, answer := range map[int]resiltest.Reply{503: status(503, 0), 200: status(200, 0), 0: {Err: io.ErrUnexpectedEOF}} {
		ctx, cancel := context.WithCancel(t.Context())
		s := resiltest.NewScript(answer)
		resp, err := do(t, p, roundTrip(func(req *http.Request) (*http.Response, error) {
			defer cancel()
			return s.RoundTrip(req)
		}), request(ctx, http.MethodGet, nil))
		if want == 0 {
			require.Equal(t, io.ErrUnexpectedEOF, err)
		} else {
			require.Equal(t, want, resp.StatusCode, "it did come")
		}
		require.Equal(t, 1, s.Calls())
	}
	require.Zero(t, asked)
	require.EqualValues(t, 2, p.Stats().Suppressed[coreretry.Canceled])
}

func TestRetryIfAndRetryResponse(t *testing.T) {
	t.Parallel()
	reset, refused := errors.New("reset"), errors.New("refused")
	p := quick(retry.Config{
		RetryIf: func(err error) bool { return errors.Is(err, reset) },
		RetryResponse: func(resp *http.Response) bool {
			return resp.StatusCode == http.StatusNotFound && resp.Request.URL.Path == "/x"
		},
	})
	for want, answer := range map[int]resiltest.Reply{3: status(404, 0), 1: status(503, 0)} {
		s := resiltest.NewScript(answer)
		_, err := do(t, p, s, get(t))
		require.NoError(t, err)
		require.Equal(t, want, s.Calls())
	}
	for want, e := range map[int]error{3: reset, 1: refused} {
		s := resiltest.NewScript(resiltest.Reply{Err: e})
		_, err := do(t, p, s, get(t))
		require.Equal(t, e, err)
		require.Equal(t, want, s.Calls())
	}
}

func TestCheckRetryIsAskedInPlaceOfTheOthers(t *testing.T) {
	t.Parallel()
	no := func() bool { t.Error("asked"); return false }
	p := quick(retry.Config{
		CheckRetry:    func(context.Context, *http.Response, error) (bool, error) { return true, nil },
		RetryIf:       func(error) bool { return no() },
		RetryResponse: func(*http.Response) bool { return no() },
	})
	for _, answer := range []resiltest.Reply{{Err: errors.New("reset")}, status(418, 0)} {
		s := resiltest.NewScript(answer, answer, status(418, 0))
		_, err := do(t, p, s, get(t))
		require.NoError(t, err)
		require.Equal(t, 3, s.Calls())
	}
}

func TestDefaultCheckRetryByItself(t *testing.T) {
	t.Parallel()
	again, err := retry.DefaultCheckRetry(t.Context(), nil, nil)
	require.False(t, again)
	require.NoError(t, err)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	again, err = retry.DefaultCheckRetry(cancelled, nil, io.EOF)
	require.False(t, again)
	require.ErrorIs(t, err, context.Canceled)
}

func TestBackoffOfGoRetryablehttpPlugsIn(t *testing.T) {
	t.Parallel()
	const s = time.Second
	century := func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return 1e18 }
	for name, tc := range map[string]struct {
		f      retryablehttp.Backoff
		least  time.Duration
		limit  time.Duration
		first  resiltest.Reply
		waits  []time.Duration
		stopAt int
	}{
		"DefaultBackoff":              {retryablehttp.DefaultBackoff, s, 3 * s, status(500, 0), []time.Duration{s, 2 * s, 3 * s}, 500},
		"LinearJitterBackoff":         {retryablehttp.LinearJitterBackoff, s, s, status(500, 0), []time.Duration{s, 2 * s, 3 * s}, 500},
		"it obeys Retry-After itself": {retryablehttp.DefaultBackoff, s, 3 * s, status(503, 0, "Retry-After: 100"), []time.Duration{100 * s, 100 * s, 100 * s}, 503},
		"and would obey a century":    {retryablehttp.DefaultBackoff, s, 3 * s, status(503, 0, "Retry-After: 100000000000"), nil, 503},
		"results are capped":          {century, s, 30 * s, status(500, 0), []time.Duration{30 * s, 60 * s, 90 * s}, 500},
		"negative results are none":   {func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return -s }, s, s, status(500, 0), []time.Duration{0, 0, 0}, 500},
		"no limit is no wait":         {century, s, 0, status(500, 0), []time.Duration{0, 0, 0}, 500},
		"huge limit":                  {century, s, 1<<63 - 1, status(500, 0), []time.Duration{1e18, 1e18, 1e18}, 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				script := resiltest.NewScript(tc.first)
				p := core.Must(retry.New(retry.Config{MaxAttempts: 4, Delay: retry.FromBackoff(tc.f, tc.least, tc.limit)}))
				resp, err := do(t, p, script, get(t))
				require.NoError(t, err)
				require.Equal(t, tc.stopAt, resp.StatusCode)
				waits := script.Waits()
				if name == "it obeys Retry-After itself" { // its result is cut, and the plugin's own jitter comes on top
					for i, wait := range waits {
						require.GreaterOrEqual(t, wait, 100*s)
						waits[i] = wait.Truncate(100 * s)
					}
				}
				require.Equal(t, tc.waits, waits)
			})
		})
	}
}

func TestBackoffGetsTheAttemptFromZero(t *testing.T) {
	t.Parallel()
	var attempts, codes []int
	p := quick(retry.Config{Delay: retry.FromBackoff(func(least, limit time.Duration, n int, resp *http.Response) time.Duration {
		require.Equal(t, []time.Duration{1, 2}, []time.Duration{least, limit})
		attempts = append(attempts, n)
		if resp != nil {
			codes = append(codes, resp.StatusCode)
		}
		return 0
	}, 1, 2)})
	_, err := do(t, p, resiltest.NewScript(status(502, 0), resiltest.Reply{Err: errors.New("reset")}, status(200, 0)), get(t))
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, attempts)
	require.Equal(t, []int{502}, codes)
}

func TestMaxElapsedAndDeadlineBoundTheWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, tc := range map[string]struct {
			cfg     retry.Config
			timeout time.Duration
		}{
			"MaxElapsed": {retry.Config{MaxElapsed: time.Second}, time.Hour},
			"deadline":   {retry.Config{}, time.Second},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), tc.timeout)
			tc.cfg.MaxAttempts, tc.cfg.Backoff = 10, doubling()
			s := resiltest.NewScript(status(503, 0))
			start := time.Now()
			p := core.Must(retry.New(tc.cfg))
			resp, err := do(t, p, s, request(ctx, http.MethodGet, nil))
			cancel()
			require.NoError(t, err, name)
			require.Equal(t, 503, resp.StatusCode)
			require.Equal(t, 500*time.Millisecond, time.Since(start), "the wait of 1s is not begun")
			require.EqualValues(t, 1, p.Stats().Suppressed[coreretry.Deadline])
		}
	})
}

func TestTransportsThatBreakTheirContract(t *testing.T) {
	t.Parallel()
	b := resiltest.NewBody("x")
	s := resiltest.NewScript(
		resiltest.Reply{Do: func(*http.Request) (*http.Response, error) { return &http.Response{Body: b}, errors.New("both") }},
		status(200, 0),
	)
	resp, err := do(t, quick(retry.Config{}), s, get(t))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, 1, b.Closes())

	neither := roundTrip(func(*http.Request) (*http.Response, error) { return nil, nil }) //nolint:nilnil // see above
	_, err = do(t, quick(retry.Config{}), neither, get(t))
	require.EqualError(t, err, "retry: the transport returned neither a response nor an error")
}

func TestTransportOfItsOwn(t *testing.T) {
	t.Parallel()
	rt := quick(retry.Config{}).Transport(nil)
	c := &http.Client{Transport: rt}
	c.CloseIdleConnections()
	_, err := c.Do(core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "ftp://example.test/", nil)))
	require.ErrorContains(t, err, "unsupported protocol scheme")
}
