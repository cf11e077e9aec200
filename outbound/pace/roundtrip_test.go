package pace_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/pace"
	"github.com/gresil/gresil/plugins/retry"
)

func post(ctx context.Context, url string, body io.Reader) *http.Request {
	return core.Must(http.NewRequestWithContext(ctx, http.MethodPost, url, body))
}

// dials makes each dial of a transport take a time. It returns the number of bytes written.
func dials(tr *http.Transport, takes time.Duration) *atomic.Int64 {
	dial, written := tr.DialContext, &atomic.Int64{}
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		time.Sleep(takes)
		conn, err := dial(ctx, network, addr)
		return &countedConn{conn, written}, err
	}
	return written
}

type countedConn struct {
	net.Conn
	written *atomic.Int64
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

func protocols(t *testing.T, test func(t *testing.T, set func(*http.Transport))) {
	t.Helper()
	for name, set := range map[string]func(*http.Transport){
		"HTTP/1": func(*http.Transport) {},
		"HTTP/2": func(tr *http.Transport) { tr.Protocols = resiltest.HTTP2() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, set) })
		})
	}
}

// TestASlowDialDoesNotSendAStalePermit: dials take longer than Slack.
func TestASlowDialDoesNotSendAStalePermit(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, set func(*http.Transport)) {
		t.Helper()
		var v vendor
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { v.call(1) }))
		tr := srv.Transport()
		set(tr)
		dials(tr, 333*time.Millisecond)
		p := newPacer(t, pace.Config{Rates: []pace.Rate{{Calls: 10, Per: time.Second}}})
		rt := p.Transport(tr)
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				resp, err := rt.RoundTrip(post(t.Context(), srv.URL, nil))
				if err == nil {
					_ = resp.Body.Close()
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 40, v.total())
		require.LessOrEqual(t, v.most(time.Second), int64(10))
		require.NotZero(t, p.Stats().Stale)
		require.Equal(t, p.Stats().Permits, 40+p.Stats().Stale)
		time.Sleep(time.Second) // dials whose request has got another connection
	})
}

// TestARequestWithoutAFreshPermitIsNotSent: the permit is stale after the dial, and the next one
// comes after the deadline.
func TestARequestWithoutAFreshPermitIsNotSent(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, set func(*http.Transport)) {
		t.Helper()
		script := resiltest.NewScript()
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), script)
		tr := srv.Transport()
		set(tr)
		written := dials(tr, time.Second)
		p := newPacer(t, pace.Config{Rates: []pace.Rate{{Calls: 1, Per: time.Hour}}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		body := resiltest.NewBody("order")
		req := post(ctx, srv.URL, body)
		req.ContentLength = 5
		resp, err := p.Transport(tr).RoundTrip(req)
		require.Nil(t, resp)
		require.ErrorIs(t, err, pace.ErrLimited)
		require.ErrorIs(t, err, core.ErrRejected)
		after, ok := core.RetryAfter(err)
		require.True(t, ok)
		require.InDelta(t, time.Hour, after, float64(2*time.Second))
		time.Sleep(time.Minute)
		require.Zero(t, script.Calls())
		if tr.Protocols == nil {
			require.Zero(t, written.Load())
		}
		require.Equal(t, 1, body.Closes())
	})
}

// TestARequestWhoseContextEndsInTheWaitIsNotSent: it waits for another permit at that time.
func TestARequestWhoseContextEndsInTheWaitIsNotSent(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, set func(*http.Transport)) {
		t.Helper()
		script := resiltest.NewScript()
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), script)
		tr := srv.Transport()
		set(tr)
		written := dials(tr, time.Second)
		p := newPacer(t, pace.Config{Rates: []pace.Rate{{Calls: 1, Per: time.Hour}}})
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		time.AfterFunc(time.Minute, func() { cancel(gone) })
		body := resiltest.NewBody("order")
		_, err := p.Transport(tr).RoundTrip(post(ctx, srv.URL, body))
		require.ErrorIs(t, err, gone)
		require.NotErrorIs(t, err, core.ErrRejected)
		time.Sleep(time.Minute)
		require.Zero(t, script.Calls())
		if tr.Protocols == nil {
			require.Zero(t, written.Load())
		}
		require.Equal(t, 1, body.Closes())
	})
}

// TestARequestThatIsNotSentDoesNotEndOthers: they share a connection of HTTP/2.
func TestARequestThatIsNotSentDoesNotEndOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Hour)
			_, _ = io.WriteString(w, "done")
		}))
		tr := srv.Transport()
		tr.Protocols = resiltest.HTTP2()
		p := newPacer(t, pace.Config{Rates: []pace.Rate{{Calls: 2, Per: 24 * time.Hour, Burst: 2}}})
		delay := time.Duration(0)
		rt := p.Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
			time.Sleep(delay)
			return tr.RoundTrip(req)
		}))
		var wg sync.WaitGroup
		wg.Go(func() {
			resp, err := rt.RoundTrip(post(t.Context(), srv.URL, nil))
			require.NoError(t, err)
			require.Equal(t, "done", string(core.Must(io.ReadAll(resp.Body))))
		})
		synctest.Wait()
		delay = time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := rt.RoundTrip(post(ctx, srv.URL, nil))
		require.ErrorIs(t, err, pace.ErrLimited)
		wg.Wait()
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestStaleRequestTakesNoAnswerAway: net/http gives a connection to the next request before the caller has the answer to this one, if
// that has no body.
func TestStaleRequestTakesNoAnswerAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const second, stale = time.Second, 200 * time.Millisecond
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		}))
		p := newPacer(t, pace.Config{Rates: []pace.Rate{{Calls: 1, Per: second}}})
		rt := p.Transport(srv.Transport())
		send := func(trace *httptrace.ClientTrace) {
			resp, err := rt.RoundTrip(post(httptrace.WithClientTrace(t.Context(), trace), srv.URL, http.NoBody))
			if err == nil {
				err = resp.Body.Close()
			}
			if err != nil {
				t.Error(err)
			}
		}
		idle := make(chan struct{})
		var other sync.WaitGroup
		other.Go(func() {
			<-idle
			late := sync.OnceFunc(func() { time.Sleep(stale) })
			send(&httptrace.ClientTrace{GetConn: func(string) { late() }}) // its slot is in a second
		})
		send(&httptrace.ClientTrace{PutIdleConn: func(error) {
			close(idle)
			time.Sleep(second + stale + stale/2)
		}})
		other.Wait()
		require.EqualValues(t, 1, p.Stats().Stale)
	})
}

// TestEachConnectionOfARequestTakesAPermit: a transport that sends a request again by itself.
func TestEachConnectionOfARequestTakesAPermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Rates: perSecond(1)})
		var sent []time.Duration
		start := time.Now()
		failing := true
		rt := p.Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
			trace := httptrace.ContextClientTrace(req.Context())
			for range 3 {
				trace.GotConn(httptrace.GotConnInfo{})
				if req.Context().Err() != nil {
					return nil, context.Cause(req.Context())
				}
				sent = append(sent, time.Since(start))
				trace.WroteHeaders()
			}
			if failing {
				return nil, io.ErrUnexpectedEOF
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
		}))
		_, err := rt.RoundTrip(post(t.Context(), "http://vendor.test", nil))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, []time.Duration{0, 1050 * time.Millisecond, 2100 * time.Millisecond}, sent)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		_, err = rt.RoundTrip(post(ctx, "http://vendor.test", nil))
		require.Error(t, err)
		require.NotErrorIs(t, err, core.ErrRejected, "the first attempt may have arrived")
		require.Len(t, sent, 4)
		failing = false
		time.Sleep(time.Minute)
		req := post(t.Context(), "http://vendor.test", nil)
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		require.Same(t, req, resp.Request)
	})
}

func TestARejectedRequestClosesItsBodyOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := resiltest.NewScript()
		p := newPacer(t, pace.Config{Rates: perSecond(1), MaxWait: time.Millisecond, Key: func(req *http.Request) string {
			if req.URL.Path == "/panic" {
				panic("key")
			}
			return ""
		}})
		rt := p.Transport(script)
		_ = core.Must(rt.RoundTrip(post(t.Context(), "http://a.test/", nil)))
		body := resiltest.NewBody("order")
		_, err := rt.RoundTrip(post(t.Context(), "http://b.test/", body))
		require.ErrorIs(t, err, pace.ErrLimited, "one key")
		require.Equal(t, 1, body.Closes())
		body = resiltest.NewBody("order")
		require.Panics(t, func() { _, _ = rt.RoundTrip(post(t.Context(), "http://b.test/panic", body)) })
		require.Equal(t, 1, body.Closes())
		require.NoError(t, p.Close())
		body = resiltest.NewBody("order")
		_, err = rt.RoundTrip(post(t.Context(), "http://b.test/", body))
		require.ErrorIs(t, err, pace.ErrClosed)
		require.Equal(t, 1, body.Closes())
		require.Equal(t, 1, script.Calls())
	})
}

func TestABodyIsClosedOnceThoughTheTransportPanics(t *testing.T) {
	t.Parallel()
	p := newPacer(t, pace.Config{Rates: perSecond(100)})
	for name, closes := range map[string]bool{"closed before the panic": true, "not closed": false} {
		body := resiltest.NewBody("order")
		rt := p.Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
			if closes {
				_ = req.Body.Close()
			}
			panic("transport")
		}))
		req := post(t.Context(), "http://a.test/", body)
		require.PanicsWithValue(t, "transport", func() { _, _ = rt.RoundTrip(req) }, name)
		require.Equal(t, 1, body.Closes(), name)
		require.Same(t, body, req.Body, "the request is never changed")
	}
}

func TestEachAttemptOfARetryTakesAPermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Rates: perSecond(1)})
		down := resiltest.Reply{Status: http.StatusServiceUnavailable}
		script := resiltest.NewScript(down, down, resiltest.Reply{Body: "done"})
		retries := retry.NewClient(core.Must(retry.New(retry.Config{Backoff: backoff.Constant{}})), retry.ClientOptions{})
		start := time.Now()
		c := &http.Client{Transport: client.New(script, p, retries)}
		resp, err := c.Get("http://vendor.test/")
		require.NoError(t, err)
		require.Equal(t, "done", string(core.Must(io.ReadAll(resp.Body))))
		require.Equal(t, 2100*time.Millisecond, time.Since(start))
		require.EqualValues(t, 3, p.Stats().Permits)
	})
}

func TestHostsHaveRatesOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, start := newPacer(t, pace.Config{Rates: perSecond(1)}), time.Now()
		rt := p.Transport(resiltest.NewScript())
		for _, host := range []string{"a.test", "b.test", "A.test:80"} {
			_ = core.Must(rt.RoundTrip(post(t.Context(), "http://"+host, nil)))
		}
		require.Equal(t, 1050*time.Millisecond, time.Since(start))
	})
}

// TestAConnectionWithoutAPermitIsClosedBeforeItIsUsed: an HTTP/1 connection writes a request even if
// its context has ended, unless it loses a race.
func TestAConnectionWithoutAPermitIsClosedBeforeItIsUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(t, pace.Config{Rates: perSecond(1), MaxWait: time.Millisecond})
		conn, _ := net.Pipe()
		_, err := p.Transport(roundTripper(func(req *http.Request) (*http.Response, error) {
			time.Sleep(slack + 1)
			httptrace.ContextClientTrace(req.Context()).GotConn(httptrace.GotConnInfo{Conn: conn})
			_, err := conn.Write([]byte("POST"))
			require.ErrorIs(t, err, io.ErrClosedPipe)
			require.ErrorContains(t, context.Cause(req.Context()), "stale")
			return nil, err
		})).RoundTrip(post(t.Context(), "http://vendor.test", nil))
		require.ErrorIs(t, err, pace.ErrLimited)
	})
}
