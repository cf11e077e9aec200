package breaker_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
)

var errDown = errors.New("connection refused")

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func respond(req *http.Request, status int) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}
}

// answers is a transport that always answers so.
func answers(status int, header http.Header) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		resp := respond(req, status)
		resp.Header = header
		return resp, nil
	})
}

// hangs never answers.
func hangs(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, context.Cause(req.Context())
}

func newGroup(t *testing.T, cfg breaker.Config) *breaker.Group {
	t.Helper()
	if cfg.OpenDelay == nil {
		cfg.OpenDelay = backoff.Constant{Delay: time.Minute}
	}
	g, err := breaker.NewGroup(cfg)
	require.NoError(t, err)
	return g
}

func request(ctx context.Context, t *testing.T, url string, body io.Reader) *http.Request {
	t.Helper()
	method := http.MethodGet
	if body != nil {
		method = http.MethodPut
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	require.NoError(t, err)
	return req
}

// send sends a request and returns its status, or its error.
func send(t *testing.T, rt http.RoundTripper, url string) (int, error) {
	t.Helper()
	resp, err := rt.RoundTrip(request(t.Context(), t, url, nil))
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// counts are the successes, failures and ignored calls.
func counts(s breaker.Stats) [3]uint64 { return [3]uint64{s.Successes, s.Failures, s.Ignored} }

const url = "https://api.example.com/"

// A server that accepts and never answers opens the breaker, whoever limits the requests.
func TestHangingServerOpens(t *testing.T) {
	t.Parallel()
	attempt := timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: time.Second})), timeout.ClientOptions{PerAttempt: true})
	total := timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: time.Second})), timeout.ClientOptions{})
	retries := retry.NewClient(core.Must(retry.New(retry.Config{MaxAttempts: 2})), retry.ClientOptions{})
	for name, c := range map[string]struct {
		plugins []client.Plugin
		client  time.Duration // http.Client.Timeout
		caller  time.Duration
	}{
		"http.Client.Timeout":                {nil, time.Second, 0},
		"the caller's deadline":              {nil, 0, time.Second},
		"both":                               {nil, time.Second, time.Second},
		"the limit of attempts":              {[]client.Plugin{attempt}, 0, 0},
		"a total limit":                      {[]client.Plugin{total}, 0, 0},
		"inside of a retry":                  {[]client.Plugin{retries, attempt}, 0, 0},
		"inside of a retry, Client.Timeout":  {[]client.Plugin{retries}, time.Second, 0},
		"inside of a retry and its deadline": {[]client.Plugin{retries, attempt}, 0, 1500 * time.Millisecond},
		"inside of all":                      {[]client.Plugin{total, retries, attempt}, time.Minute, time.Minute},
	} {
		for which, base := range map[string]func(*testing.T) http.RoundTripper{
			"a stub": func(*testing.T) http.RoundTripper { return roundTrip(hangs) },
			"a server": func(t *testing.T) http.RoundTripper {
				t.Helper()
				return resiltest.Serve(t, resiltest.NewNetwork(), resiltest.NewScript(resiltest.Reply{Delay: -1})).Transport()
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				calls, next := 0, base(t)
				counted := roundTrip(func(req *http.Request) (*http.Response, error) { calls++; return next.RoundTrip(req) })
				group := newGroup(t, breaker.Config{OpenDelay: nil})
				rt := client.New(counted, append(c.plugins, breaker.NewClient(group, breaker.ClientOptions{}))...)
				httpClient := &http.Client{Transport: rt, Timeout: c.client}
				for range 1000 {
					ctx, cancel := context.WithCancel(t.Context())
					if c.caller > 0 {
						ctx, cancel = context.WithTimeout(ctx, c.caller)
					}
					_, err := httpClient.Do(request(ctx, t, "http://one.test/", nil))
					cancel()
					require.Error(t, err)
					if errors.Is(err, breaker.ErrOpen) {
						break
					}
				}
				require.Equal(t, 5, calls, "%s, %s", name, which)
				require.Equal(t, breaker.Open, group.Stats().State, name)
				if t, ok := next.(*http.Transport); ok {
					t.CloseIdleConnections()
				}
			})
		}
	}
}

func TestClientOutcomes(t *testing.T) {
	t.Parallel()
	success, failure, ignored := [3]uint64{1, 0, 0}, [3]uint64{0, 1, 0}, [3]uint64{0, 0, 1}
	status := func(n int) roundTrip {
		return func(req *http.Request) (*http.Response, error) { return respond(req, n), nil }
	}
	reads := func(req *http.Request) (*http.Response, error) { //nolint:unparam // a RoundTripper has it
		defer func() { _ = req.Body.Close() }()
		_, err := io.Copy(io.Discard, req.Body)
		return respond(req, 200), err
	}
	limited := func(d time.Duration) func(*http.Request) *http.Request {
		return func(req *http.Request) *http.Request {
			ctx, cancel := context.WithTimeout(req.Context(), d)
			context.AfterFunc(ctx, cancel)
			return req.WithContext(ctx)
		}
	}
	for name, c := range map[string]struct {
		base   roundTrip
		body   io.Reader
		change func(*http.Request) *http.Request
		want   [3]uint64
	}{
		"200":                    {status(200), nil, nil, success},
		"404":                    {status(404), nil, nil, success},
		"429":                    {status(429), nil, nil, success},
		"500":                    {status(500), nil, nil, failure},
		"501":                    {status(501), nil, nil, success},
		"503":                    {status(503), nil, nil, failure},
		"505":                    {status(505), nil, nil, success},
		"an error":               {func(*http.Request) (*http.Response, error) { return nil, errDown }, nil, nil, failure},
		"no response":            {func(*http.Request) (*http.Response, error) { return nil, nil }, nil, nil, failure},
		"a rejection further in": {func(*http.Request) (*http.Response, error) { return nil, core.ErrRejected }, nil, nil, ignored},
		"the caller cancels": {hangs, nil, func(req *http.Request) *http.Request {
			ctx, cancel := context.WithCancel(req.Context())
			time.AfterFunc(time.Second, cancel)
			return req.WithContext(ctx)
		}, ignored},
		"the caller cancels before its deadline": {hangs, nil, func(req *http.Request) *http.Request {
			ctx, cancel := context.WithTimeout(req.Context(), time.Minute)
			time.AfterFunc(time.Second, cancel)
			return req.WithContext(ctx)
		}, ignored},
		"the caller's deadline":     {hangs, nil, limited(time.Second), failure},
		"it is near":                {hangs, nil, limited(1), failure},
		"an upload under it":        {reads, io.MultiReader(strings.NewReader("x")), limited(time.Second), success},
		"an upload that fails":      {reads, iotest.ErrReader(errors.New("disk")), nil, ignored},
		"an upload that is short":   {func(req *http.Request) (*http.Response, error) { _, _ = reads(req); return nil, errDown }, io.MultiReader(strings.NewReader("x")), func(req *http.Request) *http.Request { req.ContentLength = 9; return req }, ignored},
		"an upload that goes on":    {func(req *http.Request) (*http.Response, error) { go func() { _, _ = reads(req) }(); return hangs(req) }, &trickle{3, time.Minute}, limited(time.Second), ignored},
		"an upload that was sent":   {func(req *http.Request) (*http.Response, error) { _, _ = reads(req); return hangs(req) }, io.MultiReader(strings.NewReader("x")), limited(time.Second), failure},
		"one that nobody reads":     {hangs, io.MultiReader(strings.NewReader("x")), limited(time.Second), failure},
		"a request without a place": {http.DefaultTransport.RoundTrip, nil, func(req *http.Request) *http.Request { req.Header.Set("A", "a\nb"); return req }, ignored},
	} {
		synctest.Test(t, func(t *testing.T) {
			group := newGroup(t, breaker.Config{})
			req := request(t.Context(), t, url, c.body)
			if c.change != nil {
				req = c.change(req)
			}
			resp, err := breaker.NewClient(group, breaker.ClientOptions{}).Transport(c.base).RoundTrip(req)
			if err == nil && resp != nil {
				require.NoError(t, resp.Body.Close())
				require.Same(t, req, resp.Request)
			}
			require.Equal(t, c.want, counts(group.Stats()), name)
			time.Sleep(time.Hour) // an upload goes on
		})
	}
}

func TestHostsHaveTheirOwn(t *testing.T) {
	t.Parallel()
	group := newGroup(t, breaker.Config{Name: "search"})
	rt := client.New(answers(500, nil), breaker.NewClient(group, breaker.ClientOptions{}))
	for range 5 {
		status, err := send(t, rt, url)
		require.Equal(t, []any{500, nil}, []any{status, err})
	}
	_, err := send(t, rt, "https://API.example.com:443/x")
	require.EqualError(t, err, "breaker: search: api.example.com: open for another 1m")
	require.ErrorIs(t, err, core.ErrRejected)
	status, _ := send(t, rt, "https://other.example.com/")
	require.Equal(t, 500, status)
	require.Equal(t, 2, group.Stats().Keys)
}

func TestClientOptions(t *testing.T) {
	t.Parallel()
	group := newGroup(t, breaker.Config{Failures: 1})
	var judged int
	c := breaker.NewClient(group, breaker.ClientOptions{
		Key: func(req *http.Request) (string, bool) { return req.URL.Path, req.URL.Path != "/free" },
		Classify: func(req *http.Request, resp *http.Response, err error) core.Outcome {
			judged++
			return client.Classify(req, resp, err)
		},
	})
	rt := c.Transport(answers(500, nil))
	for range 3 {
		status, _ := send(t, rt, url+"free")
		require.Equal(t, 500, status)
	}
	require.Zero(t, judged)
	_, err := send(t, rt, url+"a")
	require.NoError(t, err)
	_, err = send(t, rt, url+"a")
	require.ErrorIs(t, err, breaker.ErrOpen)
	for name, f := range map[string]func(o *breaker.ClientOptions){
		"disabled":         func(o *breaker.ClientOptions) { o.Disabled = true },
		"another key":      func(o *breaker.ClientOptions) { o.Key = func(*http.Request) (string, bool) { return name(t), true } },
		"the zero options": func(o *breaker.ClientOptions) { *o = breaker.ClientOptions{} },
		"no failure": func(o *breaker.ClientOptions) {
			o.Key = func(*http.Request) (string, bool) { return "c", true }
			o.Classify = func(*http.Request, *http.Response, error) core.Outcome { return core.Success }
		},
	} {
		ctx := c.Override(c.Override(t.Context(), f), func(*breaker.ClientOptions) {})
		resp, err := rt.RoundTrip(request(ctx, t, url+"a", nil))
		require.NoError(t, err, name)
		require.Equal(t, 500, resp.StatusCode, name)
	}
	require.Equal(t, breaker.Closed, group.For("c").State())
	require.Equal(t, breaker.Open, group.For(name(t)).State())
	require.Equal(t, breaker.Open, group.For("api.example.com").State(), "of the zero options")
	require.Equal(t, []any{"breaker.Client(default)", client.Attempt}, []any{c.String(), c.Phase()})
	require.NotNil(t, breaker.NewClient(nil, breaker.ClientOptions{}).Transport(nil))
}

func name(t *testing.T) string { t.Helper(); return t.Name() }

func TestTripAndRetryAfter(t *testing.T) {
	t.Parallel()
	banned := func(resp *http.Response) time.Duration {
		if resp.StatusCode == http.StatusForbidden {
			return time.Hour / 2
		}
		return 0
	}
	asks := http.Header{"Retry-After": {"300"}}
	for name, c := range map[string]struct {
		trip   func(*http.Response) time.Duration
		status int
		header http.Header
		calls  int // until it opens, of at most 10
		left   time.Duration
	}{
		"five failures":         {nil, 503, nil, 5, time.Minute},
		"they ask for a pause":  {nil, 503, asks, 5, 5 * time.Minute},
		"at most MaxRetryAfter": {nil, 503, http.Header{"Retry-After": {"99999"}}, 5, time.Hour},
		"a success that asks":   {nil, 429, asks, 10, 0},
		"a ban":                 {banned, 403, nil, 1, time.Hour / 2},
		"no ban":                {banned, 404, nil, 10, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			group, calls := newGroup(t, breaker.Config{MaxRetryAfter: time.Hour}), 0
			rt := breaker.NewClient(group, breaker.ClientOptions{Trip: c.trip}).Transport(answers(c.status, c.header))
			var err error
			for calls < 10 && err == nil {
				if _, err = send(t, rt, url); err == nil {
					calls++
				}
			}
			left, _ := core.RetryAfter(err)
			require.Equal(t, []any{c.calls, c.left}, []any{calls, left}, name)
		})
	}
}

// Whatever panics or ends the goroutine, a trial can be another, and no body stays open.
func TestClientPanics(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts breaker.ClientOptions
		base roundTrip
		end  any
		want [3]uint64
	}{
		"the transport":        {breaker.ClientOptions{}, func(*http.Request) (*http.Response, error) { panic("mine") }, "mine", [3]uint64{0, 1, 0}},
		"http.ErrAbortHandler": {breaker.ClientOptions{}, func(*http.Request) (*http.Response, error) { panic(http.ErrAbortHandler) }, http.ErrAbortHandler, [3]uint64{0, 0, 1}},
		"Goexit":               {breaker.ClientOptions{}, func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }, nil, [3]uint64{0, 0, 1}},
		"Classify":             {breaker.ClientOptions{Classify: func(*http.Request, *http.Response, error) core.Outcome { panic("mine") }}, nil, "mine", [3]uint64{0, 0, 1}},
		"Trip":                 {breaker.ClientOptions{Trip: func(*http.Response) time.Duration { panic("mine") }}, nil, "mine", [3]uint64{0, 0, 1}},
		"Key":                  {breaker.ClientOptions{Key: func(*http.Request) (string, bool) { panic("mine") }}, nil, "mine", [3]uint64{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group := newGroup(t, breaker.Config{Trials: 1, Initial: breaker.HalfOpen, MaxHalfOpen: -1})
			answer, upload := resiltest.NewBody("x"), resiltest.NewBody("x")
			if c.base == nil {
				c.base = func(req *http.Request) (*http.Response, error) {
					_ = req.Body.Close()
					resp := respond(req, 200)
					resp.Body = answer
					return resp, nil
				}
				defer func() { require.True(t, name == "Key" || answer.Closes() == 1) }()
			}
			ended := make(chan any)
			go func() {
				defer func() { ended <- recover() }()
				_, _ = breaker.NewClient(group, c.opts).Transport(c.base).RoundTrip(request(t.Context(), t, url, upload))
			}()
			require.Equal(t, c.end, <-ended)
			require.Equal(t, 1, upload.Closes())
			require.Equal(t, c.want, counts(group.Stats()))
			if c.want[1] == 0 {
				_, err := send(t, breaker.NewClient(group, breaker.ClientOptions{}).Transport(answers(200, nil)), url)
				require.NoError(t, err)
			}
		})
	}
}

func TestRejectedBodyIsClosed(t *testing.T) {
	t.Parallel()
	group := newGroup(t, breaker.Config{Initial: breaker.ForcedOpen})
	upload := resiltest.NewBody("x")
	_, err := breaker.NewClient(group, breaker.ClientOptions{}).Transport(answers(200, nil)).RoundTrip(request(t.Context(), t, url, upload))
	require.ErrorIs(t, err, breaker.ErrOpen)
	require.Equal(t, 1, upload.Closes())
}

func TestClientAllocations(t *testing.T) {
	ok := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}
	rt := breaker.NewClient(nil, breaker.ClientOptions{}).Transport(roundTrip(func(*http.Request) (*http.Response, error) { return ok, nil }))
	req := request(t.Context(), t, url, nil)
	require.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = rt.RoundTrip(req) }))
}
