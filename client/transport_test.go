package client_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
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

// plugin adds its name to the header Passed of requests.
type plugin struct {
	name  string
	phase client.Phase
}

func (p *plugin) String() string      { return "test.plugin(" + p.name + ")" }
func (p *plugin) Phase() client.Phase { return p.phase }
func (p *plugin) Transport(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		req = req.Clone(req.Context())
		req.Header.Add("Passed", p.name)
		return next.RoundTrip(req)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func request(t *testing.T, method string, body io.Reader) *http.Request {
	t.Helper()
	return core.Must(http.NewRequestWithContext(t.Context(), method, "http://example.test/x?y=1", body))
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(b)
}

// passed returns the plugins that a request passes.
func passed(t *testing.T, tr *client.Transport, base *resiltest.Script, req *http.Request) []string {
	t.Helper()
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return base.Attempts()[base.Calls()-1].Request.Header["Passed"]
}

func TestNew_Order(t *testing.T) {
	t.Parallel()
	total, retry := &plugin{"total", client.Overall}, &plugin{"retry", client.Attempts}
	gateA, gateB := &plugin{"gate A", client.Admission}, &plugin{"gate B", client.Admission}
	breaker, attempt := &plugin{"breaker", client.Attempt}, &plugin{"attempt", client.Attempt + 10}
	for name, tt := range map[string]struct {
		plugins []client.Plugin
		want    []string
	}{
		"none":              {nil, nil},
		"reversed":          {[]client.Plugin{attempt, breaker, gateA, retry, total}, []string{"total", "retry", "gate A", "breaker", "attempt"}},
		"equals as given":   {[]client.Plugin{gateB, total, gateA}, []string{"total", "gate B", "gate A"}},
		"overridden":        {[]client.Plugin{retry, client.InPhase(breaker, client.Overall)}, []string{"breaker", "retry"}},
		"last override":     {[]client.Plugin{gateA, client.InPhase(client.InPhase(retry, client.Attempt+1), client.Attempt)}, []string{"gate A", "retry"}},
		"middleware":        {[]client.Plugin{breaker, client.Middleware(gateA.Transport, client.Attempts)}, []string{"gate A", "breaker"}},
		"route around":      {[]client.Plugin{gateA, client.Route("example.test/", attempt, total)}, []string{"total", "gate A", "attempt"}},
		"route in a phase":  {[]client.Plugin{gateA, client.InPhase(client.Route("/", breaker, retry), client.Overall)}, []string{"breaker", "retry", "gate A"}},
		"another route":     {[]client.Plugin{gateA, client.Route("other.test/", retry)}, []string{"gate A"}},
		"most specific one": {[]client.Plugin{client.Route("/", gateB, retry), client.Route("GET /x", breaker), gateA}, []string{"gate A", "breaker"}},
	} {
		base := resiltest.NewScript()
		require.Equal(t, tt.want, passed(t, client.New(base, tt.plugins...), base, request(t, http.MethodGet, nil)), name)
	}
}

func TestNew_Errors(t *testing.T) {
	t.Parallel()
	p, q, r := &plugin{name: "twice"}, &plugin{name: "shared"}, &plugin{name: "routed"}
	var failed *plugin // what a constructor returns with its error
	base := resiltest.NewScript()
	within := client.New(client.New(base, client.Route("a.test/", r)), &plugin{name: "base"}, q)
	tr := client.New(within, p, nil, failed, client.InPhase(failed, client.Attempt), client.InPhase(p, client.Overall), client.Middleware(nil, 0), q,
		client.Route("/{"), client.Route("a.test/", client.Route("/")), client.Route("https://a.test/"), client.Route("a.test:8080/"),
		client.Route("A.test/"), client.Route("a.test/"), client.Route("/", r))
	body := resiltest.NewBody("x")
	_, err := tr.RoundTrip(request(t, http.MethodPost, body))
	require.ErrorIs(t, err, core.ErrConfig)
	for i, want := range []string{
		"client.New[1] = <nil>: must be a plugin", "client.New[2]", "client.New[3]", "client.New[4] = test.plugin(twice): must not be in the pipeline twice",
		"client.New[5]", "client.New[6] = test.plugin(shared): must not be in the pipeline and in its base", `client.New[7] = "/{": must be a pattern`,
		"client.New[8][0] = client.Route(/): must not be a Route in a Route", `client.New[9] = "https://a.test/": must have a host without a port`,
		`client.New[10] = "a.test:8080/": must have a host without a port`, `client.New[11] = "A.test/": must have its host in lower case`,
		`client.New[12] = "a.test/": must not conflict`, "client.New[13][0] = test.plugin(routed): must not be in the pipeline and in its base",
	} {
		require.Contains(t, tr.Check()[i], want)
		require.ErrorContains(t, err, want)
	}
	require.Zero(t, base.Calls(), "nothing is sent without its plugins")
	require.Equal(t, 1, body.Closes())
}

func TestTransport_Check(t *testing.T) {
	t.Parallel()
	base := resiltest.NewScript()
	repeat, judge := &plugin{"retry", client.Attempts}, &plugin{"breaker", client.Attempt}
	require.Nil(t, client.New(base, judge, repeat).Check())
	moved := client.New(base, repeat, client.InPhase(judge, client.Overall))
	require.Equal(t, []string{"client: test.plugin(breaker) is outside test.plugin(retry), which belongs outside of it (Attempts before Attempt)"}, moved.Check())
	require.Equal(t, "Overall test.plugin(breaker) > Attempts test.plugin(retry) > *resiltest.Script", moved.String())

	one, two := retry.NewClient(core.Must(retry.New(retry.Config{Name: "one"})), retry.ClientOptions{}), retry.NewClient(nil, retry.ClientOptions{})
	want := []string{"client: retry.Client(one) is around retry.Client(default): each repeats the attempts of the other"}
	require.Equal(t, want, client.New(base, one, two).Check())
	require.Equal(t, want, client.New(client.New(base, two), one).Check())
	require.Equal(t, want, client.New(client.New(base, client.Route("a.test/", two)), client.Route("/", one)).Check(), "Routes of two transports")
	routed := client.New(client.New(base, client.Route("a.test/", one), client.Route("/", two)), client.Route("/", judge))
	require.Equal(t, []string{
		"client: test.plugin(breaker) is outside retry.Client(one), which belongs outside of it (Attempts before Attempt)",
		"client: test.plugin(breaker) is outside retry.Client(default), which belongs outside of it (Attempts before Attempt)",
	}, routed.Check(), "of the Routes of one transport only one applies")
	apart := client.New(base, client.Route("a.test/", one), client.Route("/", two), client.Middleware(judge.Transport, client.Attempt))
	require.Nil(t, apart.Check(), "no request passes both")
	require.Nil(t, client.New(client.New(base, client.Route("a.test/", judge)), client.Route("b.test/", judge)).Check(), "nor those of two hosts")
	require.Len(t, client.New(client.New(base, client.Route("a.test/", judge)), client.Route("a.test/x", judge)).Check(), 1)
	require.Equal(t, "Attempts retry.Client(one) of client.Route(a.test/) > Attempts retry.Client(default) of client.Route(/) > "+
		"Attempt client.Middleware(client_test.(*plugin).Transport-fm) > *resiltest.Script", apart.String())
}

func TestNew_DefaultBase(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer srv.Close()
	tr := client.New(nil)
	require.Equal(t, "*http.Transport", tr.String())
	resp, err := (&http.Client{Transport: tr}).Get(srv.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	tr.CloseIdleConnections() // or srv.Close would wait for them
	alone := client.Middleware(func(next http.RoundTripper) http.RoundTripper { return next }, 0).Transport(nil)
	require.Equal(t, "*http.Transport", alone.(*client.Transport).String())
}

type idler struct {
	*resiltest.Script
	calls int
}

func (i *idler) CloseIdleConnections() { i.calls++ }

func TestTransport_CloseIdleConnections(t *testing.T) {
	t.Parallel()
	base := &idler{Script: resiltest.NewScript()}
	inner := client.New(base, &plugin{"a", client.Attempts}) // its layer does not have the method
	c := &http.Client{Transport: client.New(inner, client.Route("/", &plugin{"b", client.Overall}), &plugin{"c", client.Attempt})}
	c.CloseIdleConnections()
	require.Equal(t, 1, base.calls)
	client.Route("/", breaker.NewClient(nil, breaker.ClientOptions{})).Transport(base).(interface{ CloseIdleConnections() }).CloseIdleConnections()
	require.Equal(t, 2, base.calls)
}

func TestPhase_String(t *testing.T) {
	t.Parallel()
	for p, want := range map[client.Phase]string{
		-1: "Phase(-1)", 99: "Phase(99)", client.Overall: "Overall", 150: "Overall+50", client.Attempts: "Attempts",
		client.Admission + 1: "Admission+1", client.Attempt: "Attempt", client.Attempt + 10: "Attempt+10",
	} {
		require.Equal(t, want, p.String())
	}
}

// A together is the plugins of this module around a base that answers as it is told.
type together struct {
	*resiltest.Script
	t         *testing.T
	group     *breaker.Group
	transport *client.Transport
	policy    *retry.Policy
}

func newTogether(t *testing.T) *together {
	t.Helper()
	x := &together{
		Script: resiltest.NewScript(), t: t,
		group:  core.Must(breaker.NewGroup(breaker.Config{Window: 4, Trials: 1, OpenDelay: backoff.Constant{Delay: 10 * time.Second}})),
		policy: core.Must(retry.New(retry.Config{MaxAttempts: 3, Backoff: backoff.Constant{Delay: time.Second}})),
	}
	limit := func(d time.Duration) *timeout.Timeout { return core.Must(timeout.New(timeout.Config{Limit: d})) }
	x.transport = client.New(x, timeout.NewClient(limit(2*time.Second), timeout.ClientOptions{PerAttempt: true}), breaker.NewClient(x.group, breaker.ClientOptions{}),
		retry.NewClient(x.policy, retry.ClientOptions{}), timeout.NewClient(limit(time.Minute), timeout.ClientOptions{}))
	require.Nil(t, x.transport.Check())
	return x
}

func (x *together) get(ctx context.Context, t *testing.T) (*http.Response, error) {
	t.Helper()
	req := core.Must(http.NewRequestWithContext(ctx, http.MethodGet, "http://a.test/", http.NoBody))
	resp, err := x.transport.RoundTrip(req)
	if err == nil {
		require.NoError(t, resp.Body.Close())
		require.Same(t, req, resp.Request, "as a plain transport")
		require.NoError(t, resp.Request.Context().Err())
	}
	return resp, err
}

func TestTogether(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(x *together){
		"each attempt counts, and an open breaker ends the retries": func(x *together) {
			t := x.t
			x.Set(resiltest.Reply{Status: http.StatusServiceUnavailable, Body: "later"}) // it is drained, and counted
			resp, err := x.get(t.Context(), t)
			require.NoError(t, err)
			require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "the last response")
			require.EqualValues(t, 3, x.group.Stats().Failures)
			require.Equal(t, []int{1, 1, 1}, x.Closes())

			start := time.Now()
			_, err = x.get(t.Context(), t)
			require.ErrorIs(t, err, breaker.ErrOpen)
			require.NotErrorIs(t, err, core.ErrRejected, "an attempt of this call was made")
			require.False(t, client.NotSent(err))
			require.Equal(t, 4, x.Calls(), "the fourth failure opens it")
			require.Equal(t, time.Second, time.Since(start), "a rejection is not waited for")
			wait, _ := core.RetryAfter(err)
			require.Equal(t, 9*time.Second, wait)

			time.Sleep(wait)
			x.Set()
			resp, err = x.get(t.Context(), t)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, breaker.Closed, x.group.For("a.test:80").State())
		},
		"a deadline is a failure, a cancel is not": func(x *together) {
			t := x.t
			x.Set(resiltest.Reply{Delay: -1})
			start := time.Now()
			_, err := x.get(t.Context(), t)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, 3*2*time.Second+2*time.Second, time.Since(start), "three attempts and two waits")
			require.EqualValues(t, 3, x.group.Stats().Failures)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err = x.get(ctx, t)
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, 4, x.Calls())
			require.EqualValues(t, 3, x.group.Stats().Failures)
		},
		"a panic gives everything back": func(x *together) {
			t := x.t
			x.Set(resiltest.Reply{Panic: "base"})
			for range 3 {
				require.PanicsWithValue(t, "base", func() { _, _ = x.get(t.Context(), t) })
			}
			x.Set()
			_, err := x.get(t.Context(), t)
			require.NoError(t, err)
		},
		"an upload that is too slow": func(x *together) {
			t := x.t
			for range 10 {
				body := func() (io.ReadCloser, error) { pipe, _ := io.Pipe(); return pipe, nil } // it ends when it is closed
				req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPut, "http://a.test/", core.Must(body())))
				req.GetBody = body
				_, err := x.transport.RoundTrip(req)
				require.ErrorIs(t, err, timeout.ErrTimeout)
			}
			require.Equal(t, 10, x.Calls())
			require.EqualValues(t, 10, x.group.Stats().Ignored)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(newTogether(t)) })
		})
	}
}
