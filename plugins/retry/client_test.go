package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	coreretry "github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/retry"
)

// A plugin is a Client and its policy.
type plugin struct {
	*retry.Client

	policy *retry.Policy
}

// quick is a plugin without waits, unless the Config has a Backoff.
func quick(c retry.Config, o retry.ClientOptions) plugin {
	if c.Backoff == nil {
		c.Backoff = backoff.Constant{}
	}
	p := core.Must(retry.New(c))
	return plugin{retry.NewClient(p, o), p}
}

// status answers with a status, a body of that size and header lines "Name: value".
func status(code, size int, header ...string) resiltest.Reply {
	r := resiltest.Reply{Status: code, Header: http.Header{}, Body: strings.Repeat("x", size)}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// do sends a request through the plugin, closes what it gets, and sees that the request stays what it was.
func do(t *testing.T, p plugin, base http.RoundTripper, req *http.Request) (*http.Response, error) {
	t.Helper()
	before, header, url := *req, req.Header.Clone(), *req.URL
	resp, err := p.Transport(base).RoundTrip(req)
	after := *req
	require.Equal(t, before.GetBody == nil, after.GetBody == nil)
	before.GetBody, after.GetBody = nil, nil // functions cannot be compared
	require.True(t, reflect.DeepEqual(before, after), "the caller's request was changed")
	require.Equal(t, header, req.Header)
	require.Equal(t, url, *req.URL)
	if resp != nil {
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Same(t, req, resp.Request)
	}
	return resp, err
}

func get(t *testing.T) *http.Request {
	t.Helper()
	return request(t.Context(), http.MethodGet, nil)
}

func request(ctx context.Context, method string, body io.Reader) *http.Request {
	return core.Must(http.NewRequestWithContext(ctx, method, "http://example.test/x?y=1", body))
}

func always(context.Context, *http.Response, error) (bool, error) { return true, nil }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// bound is a time limit of an attempt, as a timeout plugin sets it.
type bound struct{}

func (bound) Error() string { return "timeout: it is over" }
func (bound) Timeout() bool { return true }

// TestRepeatable says which requests are sent twice: POST only with a key, if nothing was sent, or if the user says so.
func TestRepeatable(t *testing.T) {
	t.Parallel()
	refused := resiltest.Reply{Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	yes, no := func(*http.Request) bool { return true }, func(*http.Request) bool { return false }
	for name, tt := range map[string]struct {
		method string
		header string
		reply  resiltest.Reply
		cfg    retry.Config
		opts   retry.ClientOptions
		want   int
	}{
		"GET":                  {method: "GET", reply: status(503, 1), want: 3},
		"DELETE":               {method: "DELETE", reply: status(503, 1), want: 3},
		"PUT":                  {method: "PUT", reply: status(503, 1), want: 3},
		"POST":                 {method: "POST", reply: status(503, 1), want: 1},
		"POST, error":          {method: "POST", reply: resiltest.Reply{Err: io.ErrUnexpectedEOF}, want: 1},
		"PATCH":                {method: "PATCH", reply: status(503, 1), want: 1},
		"POST, CheckRetry":     {method: "POST", reply: status(503, 1), opts: retry.ClientOptions{CheckRetry: always}, want: 1},
		"POST, key":            {method: "POST", header: "Idempotency-Key", reply: status(503, 1), want: 3},
		"POST, x key":          {method: "POST", header: "X-Idempotency-Key", reply: status(503, 1), want: 3},
		"POST, not sent":       {method: "POST", reply: refused, want: 3},
		"POST, not sent, asks": {method: "POST", reply: refused, opts: retry.ClientOptions{Repeatable: no}, want: 3},
		"POST, Repeatable":     {method: "POST", reply: status(503, 1), opts: retry.ClientOptions{Repeatable: yes}, want: 3},
		"GET, not Repeatable":  {method: "GET", reply: status(503, 1), opts: retry.ClientOptions{Repeatable: no}, want: 1},
		"MaxAttempts":          {method: "GET", reply: status(503, 1), cfg: retry.Config{MaxAttempts: 2}, want: 2},
		"Disabled":             {method: "GET", reply: status(503, 1), opts: retry.ClientOptions{Disabled: true}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := resiltest.NewScript(tt.reply)
			req := request(t.Context(), tt.method, strings.NewReader("order"))
			if tt.header != "" {
				req.Header.Set(tt.header, "17")
			}
			p := quick(tt.cfg, tt.opts)
			resp, err := do(t, p, s, req)
			require.Equal(t, tt.want, s.Calls())
			require.ErrorIs(t, err, tt.reply.Err)
			e, wrapped := errors.AsType[*retry.Error](err)
			require.Equal(t, err != nil && tt.want > 1, wrapped, "the error of the only attempt comes as it is")
			if wrapped {
				require.Equal(t, "exhausted", e.Reason)
			}
			if err == nil {
				require.Equal(t, 503, resp.StatusCode)
			}
			for i, a := range s.Attempts() {
				require.Equal(t, "order", a.Body)
				require.EqualValues(t, 5, a.Request.ContentLength)
				require.Equal(t, i+1, coreretry.Attempt(a.Request.Context()))
			}
			if tt.want == 1 && !tt.opts.Disabled {
				require.EqualValues(t, 1, p.policy.Stats().Suppressed)
			}
		})
	}
}

func TestOverride(t *testing.T) {
	t.Parallel()
	p := quick(retry.Config{}, retry.ClientOptions{})
	disabled := func(o *retry.ClientOptions) { o.Disabled = true }
	for name, tt := range map[string]struct {
		ctx  context.Context
		want int
		err  error
	}{
		"none":           {t.Context(), 3, nil},
		"options":        {p.Override(t.Context(), disabled), 1, nil},
		"innermost last": {p.Override(p.Override(t.Context(), disabled), func(o *retry.ClientOptions) { o.Disabled = false }), 3, nil},
		"policy":         {p.policy.Override(t.Context(), func(c *retry.Config) { c.MaxAttempts = 4 }), 4, nil},
		"RetryResult":    {p.policy.Override(t.Context(), func(c *retry.Config) { c.RetryResult = func(any) bool { return false } }), 1, nil},
		"bad options":    {p.Override(t.Context(), func(o *retry.ClientOptions) { o.MaxBuffer = -1 }), 0, core.ErrConfig},
		"bad policy":     {p.policy.Override(t.Context(), func(c *retry.Config) { c.MaxAttempts = -1 }), 0, core.ErrConfig},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := resiltest.NewScript(status(503, 1)), resiltest.NewBody("x")
			req := request(tt.ctx, http.MethodPut, b)
			req.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
			_, err := do(t, p, s, req)
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, tt.want, s.Calls())
			require.Equal(t, 1, b.Closes())
		})
	}
}

func TestGoRetryablehttpPlugsIn(t *testing.T) {
	t.Parallel()
	reset := errors.New("reset")
	for name, check := range map[string]retryablehttp.CheckRetry{
		"DefaultRetryPolicy":         retryablehttp.DefaultRetryPolicy,
		"ErrorPropagatedRetryPolicy": retryablehttp.ErrorPropagatedRetryPolicy,
		"ours":                       retry.CheckRetry,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := quick(retry.Config{}, retry.ClientOptions{CheckRetry: check})
			s := resiltest.NewScript(status(503, 0), resiltest.Reply{Err: reset}, status(200, 0))
			resp, err := do(t, p, s, get(t))
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode)

			s = resiltest.NewScript(status(503, 3))
			resp, err = p.Transport(s).RoundTrip(get(t))
			require.NoError(t, err, "the last response, not an error that hides it")
			require.Equal(t, "xxx", string(core.Must(io.ReadAll(resp.Body))))
			require.Equal(t, 3, s.Calls())

			scheme := errors.New(`unsupported protocol scheme "ftp"`) // which it finds in a *url.Error only
			s = resiltest.NewScript(resiltest.Reply{Err: scheme})
			_, err = do(t, p, s, get(t))
			require.Equal(t, scheme, err, "bare: http.Client wraps it again")
			require.Equal(t, 1, s.Calls())
		})
	}
}

func TestCheckRetryIsAsked(t *testing.T) {
	t.Parallel()
	own, reset := errors.New("own"), errors.New("reset")
	asked := 0
	for name, tt := range map[string]struct {
		check func(ctx context.Context, resp *http.Response, err error) (bool, error)
		reply resiltest.Reply
		want  int
		err   error
	}{
		"as http.Client wraps errors": {func(_ context.Context, _ *http.Response, err error) (bool, error) {
			return *err.(*url.Error) == url.Error{Op: "Put", URL: "http://me:xxxxx@example.test/x?y=1", Err: reset}, nil //nolint:errorlint // that is the question
		}, resiltest.Reply{Err: reset}, 3, reset},
		"success too":              {always, status(200, 9), 3, nil},
		"error instead":            {func(context.Context, *http.Response, error) (bool, error) { return false, own }, status(200, 9), 1, own},
		"error instead of another": {func(context.Context, *http.Response, error) (bool, error) { return false, own }, resiltest.Reply{Err: reset}, 1, own},
		"error and true":           {func(context.Context, *http.Response, error) (bool, error) { return true, own }, status(200, 9), 3, nil},
		"not about rejections": {func(context.Context, *http.Response, error) (bool, error) {
			asked++
			return true, nil
		}, resiltest.Reply{Err: core.ErrRejected}, 1, core.ErrRejected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := resiltest.NewScript(tt.reply)
			req := request(t.Context(), http.MethodPut, nil)
			req.URL.User = url.UserPassword("me", "secret")
			no := func() bool { t.Error("asked"); return false }
			p := quick(retry.Config{RetryIf: func(error) bool { return no() }, RetryResult: func(any) bool { return no() }}, retry.ClientOptions{CheckRetry: tt.check})
			_, err := do(t, p, s, req)
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, tt.want, s.Calls())
			for _, n := range s.Closes() {
				require.Equal(t, 1, n)
			}
			if errors.Is(err, own) {
				require.Equal(t, retry.Stats{Failed: 1}, p.policy.Stats())
			}
		})
	}
	require.Zero(t, asked)
}

func TestPredicatesOfTheConfig(t *testing.T) {
	t.Parallel()
	reset, refused := errors.New("reset"), errors.New("refused")
	p := quick(retry.Config{
		RetryIf: func(err error) bool { return errors.Is(err, reset) || errors.Is(err, core.ErrConfig) },
		RetryResult: func(v any) bool {
			resp := v.(*http.Response)
			return resp.StatusCode == http.StatusNotFound && resp.Request.URL.Path == "/x"
		},
	}, retry.ClientOptions{})
	for _, tt := range []struct {
		reply resiltest.Reply
		want  int
	}{
		{status(404, 0), 3},
		{status(503, 0), 1},
		{status(200, 0), 1},
		{resiltest.Reply{Err: reset}, 3},
		{resiltest.Reply{Err: refused}, 1},
		{resiltest.Reply{Err: &core.ConfigError{}}, 1}, // it would occur again
	} {
		s := resiltest.NewScript(tt.reply)
		_, err := do(t, p, s, get(t))
		require.ErrorIs(t, err, tt.reply.Err)
		require.Equal(t, tt.want, s.Calls())
	}
}

// A transport that returns nothing at all breaks its contract. net/http reports it; the functions of the user are not asked about it.
func TestNeitherResponseNorError(t *testing.T) {
	t.Parallel()
	nothing := roundTrip(func(*http.Request) (*http.Response, error) { return nil, nil })
	for _, p := range []plugin{
		quick(retry.Config{}, retry.ClientOptions{CheckRetry: retryablehttp.ErrorPropagatedRetryPolicy}),
		quick(retry.Config{RetryResult: func(v any) bool { return v.(*http.Response).StatusCode == http.StatusNotFound }}, retry.ClientOptions{}),
		quick(retry.Config{}, retry.ClientOptions{}),
	} {
		resp, err := do(t, p, nothing, get(t))
		require.NoError(t, err)
		require.Nil(t, resp)
		require.Zero(t, p.policy.Stats().Retries)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	const s = time.Second
	exponential := backoff.Exponential{Delay: s, Max: 3 * s, Jitter: -1}
	var told []any
	for name, tt := range map[string]struct {
		f     retryablehttp.Backoff
		of    backoff.Strategy
		first resiltest.Reply
		waits []time.Duration
	}{
		"DefaultBackoff":      {retryablehttp.DefaultBackoff, exponential, status(500, 0), []time.Duration{s, 2 * s, 3 * s}},
		"LinearJitterBackoff": {retryablehttp.LinearJitterBackoff, backoff.Exponential{Delay: s, Max: s}, status(500, 0), []time.Duration{s, 2 * s, 3 * s}},
		"MaxRetryAfter":       {retryablehttp.DefaultBackoff, exponential, status(503, 0, "Retry-After: 100000000000"), nil},
		"negative":            {func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return -s }, exponential, status(500, 0), []time.Duration{0, 0, 0}},
		"arguments": {func(least, most time.Duration, n int, resp *http.Response) time.Duration {
			told = append(told, least, most, n, resp.StatusCode)
			return s
		}, backoff.Constant{}, status(500, 0), []time.Duration{s, s, s}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				script := resiltest.NewScript(tt.first)
				_, err := do(t, quick(retry.Config{MaxAttempts: 4, Backoff: tt.of}, retry.ClientOptions{Backoff: tt.f}), script, get(t))
				require.NoError(t, err)
				require.Equal(t, tt.waits, script.Waits())
			})
		})
	}
	require.Equal(t, []any{s / 2, 60 * s, 0, 500, s / 2, 60 * s, 1, 500, s / 2, 60 * s, 2, 500}, told)
}

func TestModifyRequest(t *testing.T) {
	t.Parallel()
	s := resiltest.NewScript(status(503, 9))
	p := quick(retry.Config{}, retry.ClientOptions{ModifyRequest: func(req *http.Request, attempt int) error {
		req.Header.Add("X-Attempt", fmt.Sprint(attempt))
		return nil
	}})
	_, err := do(t, p, s, get(t))
	require.NoError(t, err)
	for i, want := range [][]string{nil, {"2"}, {"3"}} {
		require.Equal(t, want, s.Attempts()[i].Request.Header["X-Attempt"], "each begins with the caller's")
	}
}

func TestDescription(t *testing.T) {
	t.Parallel()
	p := quick(retry.Config{Name: "api"}, retry.ClientOptions{})
	require.Equal(t, "retry.Client(api)", p.String())
	require.Equal(t, client.Attempts, p.Phase())
	zero := retry.NewClient(nil, retry.ClientOptions{})
	c := &http.Client{Transport: zero.Transport(nil)}
	c.CloseIdleConnections()
	_, err := c.Do(core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "ftp://example.test/", nil)))
	require.ErrorContains(t, err, "unsupported protocol scheme")
}

func TestTimeoutsStayTimeouts(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		c := &http.Client{Transport: quick(retry.Config{}, retry.ClientOptions{}).Transport(resiltest.NewScript(resiltest.Reply{Err: bound{}}))}
		_, err := c.Do(request(t.Context(), method, strings.NewReader("x")))
		require.ErrorIs(t, err, bound{})
		require.True(t, os.IsTimeout(err), "%v", err)
	}
}

// mallocs is the number of allocations of one RoundTrip. Not for parallel tests.
func mallocs(t *testing.T, rt http.RoundTripper, req *http.Request) float64 {
	t.Helper()
	const n = 5_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range n {
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / n
}

func stub(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestFirstSuccessAllocatesNothing(t *testing.T) { //nolint:paralleltest // allocations are counted
	most, pool := 0.2, sync.Pool{}
	for range 100 {
		pool.Put(&most)
		if pool.Get() == nil {
			most = 1.5 // under the race detector a pool loses one in four
		}
	}
	p := retry.NewClient(nil, retry.ClientOptions{})
	base := mallocs(t, roundTrip(stub), get(t))
	for name, rt := range map[string]http.RoundTripper{"alone": p.Transport(roundTrip(stub)), "pipeline": client.New(roundTrip(stub), p)} {
		require.InDelta(t, 0, mallocs(t, rt, get(t))-base, most, name)
	}
	post := request(t.Context(), http.MethodPost, strings.NewReader("in memory"))
	require.InDelta(t, 0, mallocs(t, p.Transport(roundTrip(stub)), post)-base, most, "a body in memory")
}
