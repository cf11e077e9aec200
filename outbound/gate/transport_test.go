package gate_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
)

// answers is a transport that answers with these statuses in turn, the last one for ever. It reads each body.
func answers(sent *[]string, statuses ...string) http.RoundTripper {
	var mu sync.Mutex
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		text := ""
		if r.Body != nil {
			b, _ := io.ReadAll(r.Body)
			_ = r.Body.Close()
			text = string(b)
		}
		status := statuses[min(len(*sent), len(statuses)-1)]
		*sent = append(*sent, text)
		code, wait, _ := strings.Cut(status, " ")
		resp := &http.Response{Status: status, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader("answer " + code))}
		_, _ = fmt.Sscan(code, &resp.StatusCode)
		if wait != "" {
			resp.Header.Set("Retry-After", wait)
		}
		return resp, nil
	})
}

func TestTransportSendsAgain(t *testing.T) {
	t.Parallel()
	noGetBody := func(r *http.Request) { r.GetBody = nil }
	put := func(r *http.Request) { r.Method = http.MethodPut }
	for name, row := range map[string]struct {
		cfg      gate.Config
		answers  []string
		change   func(*http.Request)
		deadline time.Duration
		status   int
		attempts int
		after    time.Duration
	}{
		"accepted":               {answers: []string{"200"}, status: 200, attempts: 1},
		"fails":                  {answers: []string{"500"}, status: 500, attempts: 1},
		"refused, then accepted": {answers: []string{"429 3", "200"}, status: 200, attempts: 2, after: 3 * time.Second},
		"503 with Retry-After":   {answers: []string{"503 3", "200"}, status: 200, attempts: 2, after: 3 * time.Second},
		"503 without":            {answers: []string{"503"}, status: 503, attempts: 1},
		"504, may be executed":   {answers: []string{"504 3", "200"}, status: 504, attempts: 1},
		"504, can be repeated":   {answers: []string{"504 3", "200"}, change: put, status: 200, attempts: 2, after: 3 * time.Second},
		"refused five times":     {answers: []string{"429 1"}, status: 429, attempts: 5, after: 4 * time.Second},
		"MaxAttempts":            {cfg: gate.Config{MaxAttempts: 1}, answers: []string{"429 1"}, status: 429, attempts: 1},
		"no GetBody":             {answers: []string{"429 1"}, change: noGetBody, status: 429, attempts: 1},
		"MaxWait":                {cfg: gate.Config{MaxWait: time.Second}, answers: []string{"429 3"}, status: 429, attempts: 1},
		"deadline":               {answers: []string{"429 3"}, deadline: 2 * time.Second, status: 429, attempts: 1},
		"no wait":                {cfg: gate.Config{MaxWait: -1}, answers: []string{"429 3"}, status: 429, attempts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, row.cfg, func(t tester, g *gate.Gate) {
				var sent []string
				body := resiltest.NewBody("text")
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://vendor.test", body)
				require.NoError(t, err)
				fresh := []*resiltest.Body{body}
				req.GetBody = func() (io.ReadCloser, error) {
					fresh = append(fresh, resiltest.NewBody("text"))
					return fresh[len(fresh)-1], nil
				}
				if row.change != nil {
					row.change(req)
				}
				if row.deadline > 0 {
					ctx, cancel := context.WithTimeout(t.Context(), row.deadline)
					defer cancel()
					req = req.WithContext(ctx)
				}
				start := time.Now()
				resp, err := g.Transport(answers(&sent, row.answers...)).RoundTrip(req)
				require.NoError(t, err)
				require.Same(t, req, resp.Request)
				require.Equal(t, row.status, resp.StatusCode)
				got, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint("answer ", row.status), string(got))
				require.NoError(t, resp.Body.Close())
				require.Len(t, sent, row.attempts)
				for _, s := range sent {
					require.Equal(t, "text", s)
				}
				for _, b := range fresh {
					require.Equal(t, 1, b.Closes())
				}
				require.InDelta(t, row.after, time.Since(start), float64(500*time.Millisecond))
			})
		})
	}
}

// What an answer says decides whether its call is sent again, what is held, and how many calls can be in flight.
func TestSignals(t *testing.T) {
	t.Parallel()
	const pause = 3 * time.Second
	no := errors.New("no")
	for name, row := range map[string]struct {
		says     gate.Signal // of the first answer, or the first two
		inFlight int
		sent     int
		after    time.Duration
		held     bool // at the end
		most     int  // in flight, at the end
		final    bool
	}{
		"no limit":        {gate.Signal{Reason: "lock"}, 8, 1, 0, false, 8, false},
		"limited":         {gate.Signal{Limited: true, Pause: pause}, 8, 2, pause, false, 4, false},
		"all used up":     {gate.Signal{Limited: true, Pause: pause, Quotas: []gate.Quota{{Reset: time.Hour}}}, 8, 2, pause, false, 4, false},
		"busy":            {gate.Signal{Busy: true, Pause: pause}, 8, 2, 0, false, 1, false}, // half of those that were
		"busy, one place": {gate.Signal{Busy: true, Pause: pause}, 1, 2, pause, false, 1, false},
		"busy, no places": {gate.Signal{Busy: true, Pause: pause}, 0, 2, pause, false, 0, false},
		"busy again":      {gate.Signal{Busy: true, Pause: pause}, 8, 3, pause, false, 1, false}, // one place is left
		"permanent":       {gate.Signal{Limited: true, Permanent: true, Pause: pause, Quotas: []gate.Quota{{Reset: pause}}}, 8, 1, 0, false, 8, true},
		"executed":        {gate.Signal{Limited: true, Executed: true, Pause: pause}, 8, 1, 0, true, 4, true},
		"executed, busy":  {gate.Signal{Busy: true, Executed: true}, 8, 1, 0, false, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, way := range []string{"Transport", "Do", "Do over Transport", "Do over Transport, another request"} {
				sent := 0
				cfg := gate.Config{InFlight: row.inFlight, Classify: func(resp *http.Response, err error) gate.Signal {
					switch {
					case way != "Do" && err != nil: // it is not asked any more if the answer was final
						return gate.Signal{Limited: row.final}
					case err != nil && !errors.Is(err, no), resp != nil && resp.StatusCode == http.StatusOK:
						return gate.Signal{}
					}
					return row.says
				}}
				withStoreAndWithout(t, cfg, func(t tester, g *gate.Gate) {
					sent = 0
					answer := func() int {
						if sent++; sent == 1 || sent == 2 && name == "busy again" {
							return http.StatusForbidden
						}
						return http.StatusOK
					}
					rt := g.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
						return &http.Response{StatusCode: answer(), Body: http.NoBody, Request: r}, nil
					}))
					send := func(ctx context.Context) error {
						req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://vendor.test", strings.NewReader("text"))
						require.NoError(t, err)
						resp, err := rt.RoundTrip(req)
						require.NoError(t, err)
						require.NoError(t, resp.Body.Close())
						if resp.StatusCode != http.StatusOK {
							return no
						}
						return nil
					}
					var err error
					start := time.Now()
					switch way {
					case "Transport":
						err = send(t.Context())
					case "Do":
						err = g.Do(t.Context(), gate.Call{}, func(context.Context) error {
							if answer() != http.StatusOK {
								return no
							}
							return nil
						})
					case "Do over Transport":
						err = g.Do(t.Context(), gate.Call{}, send)
					default: // its answer does not have the whole call sent again
						sent = -1
						err = g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error { _ = send(ctx); return send(ctx) })
					}
					time.Sleep(10 * time.Millisecond) // for the Store
					require.InDelta(t, row.after, time.Since(start), float64(250*time.Millisecond), way)
					require.Equal(t, row.sent == 1, err != nil, way)
					require.Equal(t, row.final && way != "Transport", blame.Permanent(err), way)
					require.Equal(t, row.sent, sent, way)
					require.Equal(t, row.held, len(g.Holds()) > 0, way)
					require.Equal(t, row.most, g.Stats().MaxInFlight, way)
				})
			}
		})
	}
}

// A request that a hold overtakes while it connects is not sent: its body is neither read nor closed, and the next try sends it whole.
// A trace of the caller is called as ever. No plugin around the gate or inside of it takes it for an attempt.
func TestHeldRequestKeepsItsBody(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		http2, plugins bool
		method         string
	}{
		"HTTP/1": {}, "HTTP/2": {http2: true}, "HTTP/1, plugins": {plugins: true}, "HTTP/2, plugins": {http2: true, plugins: true},
		"HTTP/1, a byte is read before the header": {method: http.MethodDelete}, "HTTP/2, DELETE": {http2: true, method: http.MethodDelete},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := core.Must(gate.New(gate.Config{}))
				var got []string
				network := resiltest.NewNetwork()
				base := resiltest.Serve(t, network, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					b, _ := io.ReadAll(r.Body)
					got = append(got, string(b))
				})).Transport()
				base.DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) {
					time.Sleep(time.Second)
					return network.DialContext(ctx, "", addr)
				}
				if row.http2 {
					base.Protocols = resiltest.HTTP2()
				}
				rt, p := g.Transport(base), newPlugins(t)
				trial := core.Must(breaker.NewGroup(breaker.Config{Initial: breaker.HalfOpen, Trials: 1}))
				if row.plugins {
					attempt := timeout.NewClient(p.timeout, timeout.ClientOptions{PerAttempt: true})
					rt = client.New(base, attempt, breaker.NewClient(trial, breaker.ClientOptions{}), g, retry.NewClient(p.retry, retry.ClientOptions{}))
				}
				body := resiltest.NewBody(strings.Repeat("x", 100_000))
				var conns atomic.Int64
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { conns.Add(1) }})
				req, err := http.NewRequestWithContext(ctx, cmp.Or(row.method, http.MethodPost), "http://vendor.test/post", body)
				require.NoError(t, err)
				permit, err := g.Wait(t.Context(), gate.Call{Keys: map[string]string{"host": "vendor.test:80"}})
				require.NoError(t, err)
				time.AfterFunc(500*time.Millisecond, func() { permit.Done(refusal{5 * time.Second}) }) // while the request dials
				start := time.Now()
				resp, err := rt.RoundTrip(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.GreaterOrEqual(t, time.Since(start), 5500*time.Millisecond)
				synctest.Wait() // HTTP/2 closes the body in a goroutine
				require.Equal(t, []string{strings.Repeat("x", 100_000)}, got)
				require.EqualValues(t, 100_000, body.BytesRead())
				require.Equal(t, 1, body.Closes())
				require.EqualValues(t, 2, conns.Load())
				require.EqualValues(t, 2, g.Stats().Sent, "a try that is held back is no attempt")
				require.Zero(t, p.retry.Stats().Retries)
				if row.plugins {
					require.Equal(t, breaker.Closed, trial.For("vendor.test:80").State(), "the only trial was given back, and taken again")
					require.Equal(t, timeout.Stats{Succeeded: 1}, p.timeout.Stats())
				}
			})
		})
	}
}

// plugins are the mechanisms around a gate, and inside of it.
type plugins struct {
	retry   *retry.Policy
	breaker *breaker.Group
	timeout *timeout.Timeout
}

func newPlugins(t *testing.T) plugins {
	t.Helper()
	return plugins{
		core.Must(retry.New(retry.Config{MaxAttempts: 2, Backoff: backoff.Constant{Delay: time.Millisecond}})),
		core.Must(breaker.NewGroup(breaker.Config{Failures: 2})),
		core.Must(timeout.New(timeout.Config{Limit: 2 * time.Second})),
	}
}

// The gate is one plugin among others, whatever the order of the arguments: retries pass it, and what is inside does not see its waits.
func TestGateAmongPlugins(t *testing.T) {
	t.Parallel()
	const host = "vendor.test:80"
	refusals := func(status int, n int, then ...resiltest.Reply) []resiltest.Reply {
		return append(slices.Repeat([]resiltest.Reply{{Status: status, Header: http.Header{"Retry-After": {"1"}}}}, n), then...)
	}
	held := func(t tester, g *gate.Gate, _ plugins) {
		refused(t, g, gate.Call{Keys: map[string]string{"host": host}}, 0, time.Minute)
	}
	busy := func(t tester, g *gate.Gate, _ plugins) {
		p, err := g.Wait(t.Context(), gate.Call{})
		require.NoError(t, err)
		time.AfterFunc(10*time.Second, p.Cancel)
	}
	failed := func(t tester, _ *gate.Gate, p plugins) {
		permit, err := p.breaker.For(host).Acquire(t.Context())
		require.NoError(t, err)
		permit.Done(core.Failure)
	}
	open := func(_ tester, _ *gate.Gate, p plugins) { _ = p.breaker.For(host).SetState(breaker.ForcedOpen) }
	for name, row := range map[string]struct {
		cfg     gate.Config
		before  func(t tester, g *gate.Gate, p plugins)
		total   bool // the timeout is that of the whole call
		method  string
		replies []resiltest.Reply
		want    error
		status  int
		calls   int
		retries uint64
		after   time.Duration
	}{
		"the gate sends again":           {replies: refusals(429, 3, resiltest.Reply{}), status: 200, calls: 4, after: 3 * time.Second},
		"a POST, too":                    {method: "POST", replies: refusals(429, 3, resiltest.Reply{}), status: 200, calls: 4, after: 3 * time.Second},
		"the retry sends again":          {replies: []resiltest.Reply{{Status: 500}, {}}, status: 200, calls: 2, retries: 1},
		"a POST is not retried":          {method: "POST", replies: []resiltest.Reply{{Status: 500}, {}}, status: 500, calls: 1},
		"a retry after all attempts":     {cfg: gate.Config{MaxAttempts: 2}, replies: refusals(429, 2, resiltest.Reply{}), status: 200, calls: 3, retries: 1, after: 2 * time.Second},
		"refused for ever":               {cfg: gate.Config{MaxAttempts: 2}, replies: refusals(429, 9), status: 429, calls: 4, retries: 1, after: 3 * time.Second},
		"a retry under another's hold":   {before: held, replies: []resiltest.Reply{{Status: 500}, {}}, status: 200, calls: 2, retries: 1, after: time.Minute},
		"a rejection is not retried":     {cfg: gate.Config{MaxWait: time.Second}, before: held, want: gate.ErrLimited},
		"a hold beyond the timeout":      {before: held, total: true, want: gate.ErrLimited},
		"no timeout in the gate":         {cfg: gate.Config{InFlight: 1}, before: busy, replies: refusals(200, 1), status: 200, calls: 1, after: 10 * time.Second},
		"an attempt that hangs":          {cfg: gate.Config{InFlight: 1}, replies: []resiltest.Reply{{Delay: -1}, {}}, status: 200, calls: 2, retries: 1, after: 2 * time.Second},
		"a probe that hangs":             {before: held, replies: []resiltest.Reply{{Delay: -1}, {}}, status: 200, calls: 2, retries: 1, after: time.Minute + 2*time.Second},
		"refusals do not open a breaker": {replies: refusals(429, 4, resiltest.Reply{}), status: 200, calls: 5, after: 4 * time.Second},
		"nor do those by 503":            {replies: refusals(503, 4, resiltest.Reply{}), status: 200, calls: 5, after: 4 * time.Second},
		"failures open a breaker":        {before: failed, replies: []resiltest.Reply{{Status: 500}}, want: breaker.ErrOpen, calls: 1, retries: 1},
		"an open breaker":                {cfg: gate.Config{Limits: perSecond(1), InFlight: 1}, before: open, want: breaker.ErrOpen},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, row.cfg, func(t tester, g *gate.Gate) {
				p := newPlugins(t.T)
				if row.before != nil {
					row.before(t, g, p)
					synctest.Wait()
				}
				script, sent := resiltest.NewScript(row.replies...), g.Stats().Sent
				rt := client.New(script, timeout.NewClient(p.timeout, timeout.ClientOptions{PerAttempt: !row.total}),
					breaker.NewClient(p.breaker, breaker.ClientOptions{}), g, retry.NewClient(p.retry, retry.ClientOptions{}))
				require.Empty(t, rt.Check())
				body := resiltest.NewBody("text")
				req, err := http.NewRequestWithContext(t.Context(), cmp.Or(row.method, http.MethodPut), "http://vendor.test/", body)
				require.NoError(t, err)
				req.GetBody = func() (io.ReadCloser, error) { return resiltest.NewBody("text"), nil }
				start := time.Now()
				resp, err := rt.RoundTrip(req)
				require.ErrorIs(t, err, row.want)
				require.Equal(t, row.want != nil && row.calls == 0, errors.Is(err, core.ErrRejected), "whether nothing was sent")
				if err == nil {
					require.Equal(t, row.status, resp.StatusCode)
					require.Same(t, req, resp.Request)
					require.NoError(t, resp.Body.Close())
				}
				require.InDelta(t, row.after, time.Since(start), float64(600*time.Millisecond))
				require.Equal(t, []any{row.calls, row.retries}, []any{script.Calls(), p.retry.Stats().Retries})
				require.EqualValues(t, row.calls, g.Stats().Sent-sent)
				require.Equal(t, 1, body.Closes())
				for _, a := range script.Attempts() {
					require.Equal(t, "text", a.Body)
				}
				if row.cfg.Limits != nil { // what was rejected further in has used no slot
					start = time.Now()
					require.NoError(t, do(t.Context(), g, gate.Call{}, 0))
					require.Zero(t, time.Since(start))
				}
			})
		})
	}
}

// A request that has passed a first gate and waits in a second one is not sent inside a pause of the first.
func TestGatesInRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		outer := core.Must(gate.New(gate.Config{Name: "all", Limits: []gate.Limit{{Name: "all"}}}))
		inner := core.Must(gate.New(gate.Config{Limits: []gate.Limit{{N: 1, Per: 5 * time.Second}}}))
		var arrived []time.Duration
		start := time.Now()
		base := resiltest.Serve(t, resiltest.NewNetwork(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			arrived = append(arrived, time.Since(start).Round(time.Second))
		})).Transport()
		c := &http.Client{Transport: client.New(base, outer, inner)}
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				resp, err := c.Post("http://vendor.test/", "text/plain", strings.NewReader("text"))
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
			})
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		refused(t, outer, gate.Call{}, 0, 10*time.Second)
		group.Wait()
		require.Equal(t, []time.Duration{0, 12 * time.Second}, arrived)
	})
}

// Whatever was done with the body of a try that is held back, the next try sends all of it, or the request is rejected. Each body is closed
// once.
func TestHeldRequestGetsAnotherBody(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	readAll := func(t tester, body io.ReadCloser) {
		t.Helper()
		text, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, "text", string(text))
		require.NoError(t, body.Close())
	}
	held := func(t tester, r *http.Request) (*http.Response, error) {
		t.Helper()
		httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
		require.NoError(t, r.Body.Close())
		return nil, context.Canceled
	}
	for name, row := range map[string]struct {
		try       func(t tester, r *http.Request) (*http.Response, error)
		noGetBody bool
		fails     error // of GetBody
		trailer   http.Header
		err       error
	}{
		"not read":             {try: held},
		"not read, no GetBody": {try: held, noGetBody: true},
		"not read, trailers":   {try: held, trailer: http.Header{"Sum": {"1"}}},
		"GetBody fails":        {try: held, fails: gone, err: gone},
		"net/http asks for more": {try: func(t tester, r *http.Request) (*http.Response, error) { // the connection was closed, so it tries again
			_, err := held(t, r)
			again, _ := r.GetBody()
			require.NoError(t, again.Close())
			return nil, err
		}},
		"net/http reads a byte": {noGetBody: true, try: func(t tester, r *http.Request) (*http.Response, error) {
			httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
			n, _ := r.Body.Read(make([]byte, 1))
			require.Zero(t, n)
			return held(t, r)
		}},
		"signed": {try: func(t tester, r *http.Request) (*http.Response, error) {
			body, err := r.GetBody()
			require.NoError(t, err)
			readAll(t, body)
			return held(t, r)
		}},
		"read inside": {try: func(t tester, r *http.Request) (*http.Response, error) {
			readAll(t, r.Body)
			return held(t, r)
		}},
		"read inside, no GetBody": {noGetBody: true, err: client.ErrNotReplayable, try: func(t tester, r *http.Request) (*http.Response, error) {
			readAll(t, r.Body)
			return held(t, r)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, gate.Config{}, func(t tester, g *gate.Gate) {
				var got []string
				rt := g.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
					require.Equal(t, row.trailer, r.Trailer)
					if got == nil {
						got = []string{}
						refused(t, g, gate.Call{}, 0, time.Second)
						synctest.Wait()
						return row.try(t, r)
					}
					return answers(&got, "200").RoundTrip(r)
				}))
				body := resiltest.NewBody("text")
				bodies := []*resiltest.Body{body}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://vendor.test", body)
				require.NoError(t, err)
				req.Trailer = row.trailer
				if !row.noGetBody {
					req.GetBody = func() (io.ReadCloser, error) {
						if row.fails != nil {
							return nil, row.fails
						}
						bodies = append(bodies, resiltest.NewBody("text"))
						return bodies[len(bodies)-1], nil
					}
				}
				resp, err := rt.RoundTrip(req)
				require.ErrorIs(t, err, row.err)
				if row.err == nil {
					require.NoError(t, resp.Body.Close())
					require.Equal(t, []string{"text"}, got)
				} else {
					require.ErrorIs(t, err, core.ErrRejected)
					require.Empty(t, got)
				}
				for _, b := range bodies {
					require.Equal(t, 1, b.Closes())
				}
				require.Same(t, body, req.Body, "the request is never changed")
			})
		})
	}
}

// net/http gives a connection to the next call before the caller has the answer to this one, if that has no body: the next one must
// not close it then.
func TestHeldRequestTakesNoAnswerAway(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{}, func(t tester, g *gate.Gate) {
		base := resiltest.Serve(t, resiltest.NewNetwork(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		})).Transport()
		rt := g.Transport(base)
		send := func(trace *httptrace.ClientTrace) {
			req, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, "http://vendor.test", nil)
			require.NoError(t, err)
			resp, err := rt.RoundTrip(req)
			if assert.NoError(t, err) {
				assert.NoError(t, resp.Body.Close())
			}
		}
		idle := make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() {
			asked := sync.OnceFunc(func() {
				<-idle
				refused(t, g, gate.Call{}, 0, time.Second)
				time.Sleep(time.Microsecond)
			})
			send(&httptrace.ClientTrace{GetConn: func(string) { asked() }})
		})
		synctest.Wait()
		start := time.Now()
		send(&httptrace.ClientTrace{PutIdleConn: func(error) {
			close(idle)
			time.Sleep(time.Millisecond)
		}})
		took := time.Since(start)
		group.Wait()
		require.Equal(t, time.Millisecond, took)
		require.Less(t, time.Second, time.Since(start), "it was held")
	})
}

// A request that net/http sends again by itself, over another connection, takes another slot.
func TestRequestOverTwoConnections(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{Limits: perSecond(1)}, func(t tester, g *gate.Gate) {
		var arrived []time.Duration
		start := time.Now()
		base := resiltest.Serve(t, resiltest.NewNetwork(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if arrived = append(arrived, time.Since(start)); len(arrived) == 2 {
				panic(http.ErrAbortHandler)
			}
		})).Transport()
		rt := g.Transport(base)
		for range 2 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://vendor.test", nil)
			require.NoError(t, err)
			resp, err := rt.RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		const slot = 1050 * time.Millisecond
		require.Equal(t, []time.Duration{0, slot, 2 * slot}, arrived)
	})
}

func TestTransportEnds(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	for name, row := range map[string]struct {
		next func(r *http.Request) (*http.Response, error)
		err  error
		sent uint64
	}{
		"transport fails": {func(r *http.Request) (*http.Response, error) { return nil, errors.Join(down, r.Body.Close()) }, down, 1},
		"plugin rejects": {func(r *http.Request) (*http.Response, error) {
			return nil, errors.Join(core.ErrRejected, r.Body.Close())
		}, core.ErrRejected, 0},
		"plugin rejects a repetition": {func(r *http.Request) (*http.Response, error) {
			return nil, errors.Join(&blame.Error{Err: core.ErrRejected, Sent: true}, r.Body.Close())
		}, core.ErrRejected, 1},
		"transport panics": {func(*http.Request) (*http.Response, error) { panic(down) }, down, 0},
		"panics later":     {func(r *http.Request) (*http.Response, error) { _ = r.Body.Close(); panic(down) }, down, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, gate.Config{Limits: perSecond(1), InFlight: 1}, func(t tester, g *gate.Gate) {
				body := resiltest.NewBody("text")
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://vendor.test", body)
				require.NoError(t, err)
				func() {
					defer func() {
						if v := recover(); v != nil {
							err, _ = v.(error)
						}
					}()
					_, err = g.Transport(roundTrip(row.next)).RoundTrip(req)
				}()
				require.ErrorIs(t, err, row.err)
				require.Equal(t, row.sent, g.Stats().Sent)
				require.Same(t, body, req.Body, "the request is never changed")
				require.Equal(t, 1, body.Closes())
			})
		})
	}
}

// A place is free when the body is closed or read to its end, or the context has ended.
func TestPlaceOfBody(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(resp *http.Response, cancel func()){
		"closed":   func(resp *http.Response, _ func()) { _ = resp.Body.Close() },
		"read":     func(resp *http.Response, _ func()) { _, _ = io.ReadAll(resp.Body) },
		"canceled": func(_ *http.Response, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, gate.Config{InFlight: 1}, func(t tester, g *gate.Gate) {
				var sent []string
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://vendor.test", nil)
				require.NoError(t, err)
				resp, err := g.Transport(answers(&sent, "200")).RoundTrip(req)
				require.NoError(t, err)
				require.Equal(t, 1, g.Stats().InFlight)
				end(resp, cancel)
				synctest.Wait()
				require.Equal(t, 0, g.Stats().InFlight)
			})
		})
	}
}

// The first request under the context of Do is the call that has passed. Further ones are calls of their own.
func TestDoAroundTransport(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]gate.Config{
		"same keys":    {Limits: perSecond(10), InFlight: 4},
		"key of hosts": {InFlight: 4},
		"more keys":    {Limits: []gate.Limit{{Name: "all", N: 10, Per: time.Second}, {Name: "path", N: 1000, Per: time.Second, Key: func(r *http.Request) (string, bool) { return r.URL.Path, true }}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, cfg, func(t tester, g *gate.Gate) {
				var sent []string
				rt := g.Transport(answers(&sent, "200", "200", "200", "429 1", "200"))
				send := func(ctx context.Context) error {
					req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://vendor.test", nil)
					require.NoError(t, err)
					resp, err := rt.RoundTrip(req)
					if err == nil {
						_, _ = io.ReadAll(resp.Body)
						_ = resp.Body.Close()
					}
					return err
				}
				start, runs := time.Now(), 0
				for range 20 {
					require.NoError(t, g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error { runs++; return send(ctx) }))
				}
				require.Len(t, sent, 21)
				require.Equal(t, 21, runs)
				require.EqualValues(t, 21, g.Stats().Sent)
				if len(cfg.Limits) > 0 {
					require.InDelta(t, time.Second+20*105*time.Millisecond, time.Since(start), float64(300*time.Millisecond))
				}
				require.NoError(t, g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error { return errors.Join(send(ctx), send(ctx)) }))
				require.EqualValues(t, 23, g.Stats().Sent)

				var again []string
				rt, runs = g.Transport(answers(&again, "429 1", "200")), 0
				require.NoError(t, g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error { runs++; return errors.Join(send(ctx), send(ctx)) }))
				require.Equal(t, 1, runs, "it has repeated the request itself")
				err := g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error { return errors.Join(send(ctx), refusal{time.Second}) })
				require.ErrorIs(t, err, gate.ErrLimited)
				require.NotErrorIs(t, err, core.ErrRejected, "it was sent")
				n := g.Stats().Sent
				rt = g.Transport(roundTrip(func(*http.Request) (*http.Response, error) { return nil, &net.OpError{Op: "dial", Err: io.EOF} }))
				require.Error(t, g.Do(t.Context(), gate.Call{}, send))
				require.Equal(t, n, g.Stats().Sent, "nothing was sent")
			})
		})
	}
}

// The body of an earlier attempt that is closed late does not free the place of the present one.
func TestPlaceOfEarlierBody(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{InFlight: 1}, func(t tester, g *gate.Gate) {
		var sent []string
		rt := g.Transport(answers(&sent, "429 1", "200"))
		var bodies []io.Closer
		require.NoError(t, g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error {
			if len(bodies) == 1 {
				require.NoError(t, bodies[0].Close())
				require.Equal(t, 1, g.Stats().InFlight)
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://vendor.test", nil)
			require.NoError(t, err)
			resp, err := rt.RoundTrip(req)
			require.NoError(t, err)
			bodies = append(bodies, resp.Body)
			if len(bodies) == 1 {
				return refusal{time.Second}
			}
			return resp.Body.Close()
		}))
		require.Len(t, sent, 2)
	})
}

// A call that only uses the gate once more inside of Do is that call too.
func TestNestedDo(t *testing.T) {
	t.Parallel()
	bubble(t, gate.Config{InFlight: 1}, func(t tester, g *gate.Gate) {
		inner := func(ctx context.Context) error { return do(ctx, g, gate.Call{}, 0) }
		require.NoError(t, g.Do(t.Context(), gate.Call{}, inner))
		require.EqualValues(t, 1, g.Stats().Sent)
		n := 0
		require.NoError(t, g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error {
			return g.Do(ctx, gate.Call{}, func(context.Context) error {
				if n++; n == 1 {
					return refusal{time.Second}
				}
				return nil
			})
		}))
		require.Equal(t, 2, n, "the outer call is repeated")
	})
	bubble(t, gate.Config{Limits: []gate.Limit{{N: 10, Per: 10 * time.Second, Burst: 5}}}, func(t tester, g *gate.Gate) {
		var sent []string
		rt := g.Transport(answers(&sent, "200"))
		start := time.Now()
		for range 2 {
			require.NoError(t, g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error {
				return g.Do(ctx, gate.Call{Costs: map[string]int64{"": 5}}, func(ctx context.Context) error { return get(ctx, rt) })
			}))
		}
		const slot = (10*time.Second + 50*time.Millisecond) / 6
		require.InDelta(t, 5*slot, time.Since(start), float64(100*time.Millisecond), "the request has the cost of the inner call")
	})
}

func TestCloseDrains(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		patience time.Duration
		err      error
	}{"in time": {10 * time.Second, nil}, "cut": {time.Second, context.DeadlineExceeded}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := core.Must(gate.New(gate.Config{InFlight: 1}))
				results := make([]error, 2)
				var group sync.WaitGroup
				for i := range results {
					group.Go(func() {
						results[i] = g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error {
							select {
							case <-ctx.Done():
								return context.Cause(ctx)
							case <-time.After(3 * time.Second):
								return nil
							}
						})
					})
					synctest.Wait()
				}
				ctx, cancel := context.WithTimeout(t.Context(), row.patience)
				defer cancel()
				closed := make(chan error)
				go func() { closed <- g.Close(ctx) }()
				synctest.Wait()
				require.ErrorIs(t, do(t.Context(), g, gate.Call{}, 0), gate.ErrClosed)
				require.ErrorIs(t, <-closed, row.err)
				group.Wait()
				if row.err == nil {
					require.Equal(t, []error{nil, nil}, results)
					return
				}
				for i, err := range results {
					require.ErrorIs(t, err, gate.ErrClosed)
					require.Equal(t, i == 1, errors.Is(err, core.ErrRejected), "one was sent")
				}
			})
		})
	}
}

// A call that was sent, and that Close ends while it waits for its next attempt, is not one that was not sent.
func TestCloseCutsRefusedCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := core.Must(gate.New(gate.Config{}))
		result := make(chan error)
		go func() {
			result <- g.Do(t.Context(), gate.Call{}, func(context.Context) error { return refusal{time.Minute} })
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, g.Close(ctx), context.DeadlineExceeded)
		err := <-result
		require.ErrorIs(t, err, gate.ErrClosed)
		require.NotErrorIs(t, err, core.ErrRejected)
	})
}

// A refusal that comes as an error can be of a call that was executed: a POST is not sent again.
func TestRefusalAsError(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]int{http.MethodGet: 5, http.MethodPost: 1} {
		bubble(t, gate.Config{}, func(t tester, g *gate.Gate) {
			sent := 0
			rt := g.Transport(roundTrip(func(*http.Request) (*http.Response, error) { sent++; return nil, refusal{time.Second} }))
			req, err := http.NewRequestWithContext(t.Context(), method, "http://vendor.test", nil)
			require.NoError(t, err)
			_, err = rt.RoundTrip(req)
			require.ErrorAs(t, err, &refusal{})
			require.Equal(t, want, sent, method)
		})
	}
}

// A request that is not to be sent again ends the call, whatever is sent under the same context before and after it.
func TestFinalAnswerAmongOthers(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]gate.Signal{
		"permanent": {Permanent: true, Pause: time.Hour}, "executed": {Limited: true, Executed: true, Pause: time.Second},
	} {
		for _, paths := range []string{"/no /ok", "/ok /no /ok", "/rejected /no /ok", "/slow /no /ok"} {
			t.Run(name+" "+paths, func(t *testing.T) {
				t.Parallel()
				bubble(t, gate.Config{Classify: func(resp *http.Response, err error) gate.Signal {
					if resp != nil && resp.StatusCode == http.StatusForbidden {
						return says
					}
					return gate.Signal{Limited: err != nil}
				}}, func(t tester, g *gate.Gate) {
					rt := g.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
						resp := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}
						switch r.URL.Path {
						case "/slow":
							time.Sleep(time.Minute)
						case "/rejected":
							return nil, core.ErrRejected
						case "/no":
							resp.StatusCode = http.StatusForbidden
						}
						return resp, nil
					}))
					calls, no := 0, refusal{time.Second}
					err := g.Do(t.Context(), gate.Call{}, func(ctx context.Context) error {
						calls++
						var all sync.WaitGroup
						for path := range strings.FieldsSeq(paths) {
							all.Go(func() {
								req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://vendor.test"+path, nil)
								require.NoError(t, err)
								if resp, err := rt.RoundTrip(req); err == nil {
									require.NoError(t, resp.Body.Close())
								}
							})
							time.Sleep(10 * time.Second)
						}
						all.Wait()
						return no
					})
					require.ErrorIs(t, err, no)
					require.True(t, blame.Permanent(err))
					require.Equal(t, 1, calls)
					other := core.Must(gate.New(gate.Config{}))
					err = other.Do(t.Context(), gate.Call{}, func(context.Context) error { calls++; return err })
					require.ErrorIs(t, err, no)
					require.Equal(t, 2, calls, "another gate around does not repeat it either")
				})
			})
		}
	}
}
