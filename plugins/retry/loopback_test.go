package retry_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/plugins/retry"
)

// These run over real sockets: they are about what net/http does with
// connections and bodies.

func TestGoPeers1_OneRealConnectionAndNoGoroutineLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	var attempts atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if attempts.Add(1)%3 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.Copy(w, io.LimitReader(endless{}, 1<<20))
		}
	}))
	base := &counting{next: &http.Transport{MaxConnsPerHost: 1}}
	tr := quick(retry.Config{}).Transport(base)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 50 {
		resp, err := tr.RoundTrip(core.Must(http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
	require.EqualValues(t, 150, attempts.Load())
	require.EqualValues(t, base.opened.Load(), base.closed.Load())
	client.CloseIdleConnections(base.next)
	srv.Close()
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+2 }, 5*time.Second, 10*time.Millisecond,
		"the request's context is still alive, and nothing must hang on it")
}

func TestGoPeers3_ShortBodiesKeepTheConnection(t *testing.T) {
	t.Parallel()
	var attempts atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if attempts.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.Copy(w, io.LimitReader(endless{}, client.DefaultDrainBytes))
		}
	}))
	defer srv.Close()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	var reused []bool
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = append(reused, i.Reused) }})
	resp, err := quick(retry.Config{}).Transport(tr).RoundTrip(core.Must(http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil)))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, []bool{false, true, true}, reused)
}

func TestGoPeers7_ThePoolIsNotFlushed(t *testing.T) {
	t.Parallel()
	answers := func(code int) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	}
	bad, good := answers(503), answers(200)
	defer bad.Close()
	defer good.Close()
	tr := client.New(nil, quick(retry.Config{}))
	defer tr.CloseIdleConnections()
	var reused []bool
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = append(reused, i.Reused) }})
	for _, url := range []string{good.URL, bad.URL, good.URL, bad.URL} {
		resp, err := tr.RoundTrip(core.Must(http.NewRequestWithContext(ctx, http.MethodGet, url, nil)))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	require.Equal(t, []bool{false, false, true, true, true, true, true, true}, reused)
}

func TestGoPeers11_PostThatMayHaveArrived(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	li := core.Must(net.Listen("tcp", "127.0.0.1:0"))
	defer func() { _ = li.Close() }()
	go func() {
		for {
			c, err := li.Accept()
			if err != nil {
				return
			}
			requests.Add(1)
			_, _ = c.Read(make([]byte, 4096))
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	}()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	p := quick(retry.Config{})
	send := func(method string) error {
		req := core.Must(http.NewRequestWithContext(t.Context(), method, "http://"+li.Addr().String(), strings.NewReader("order")))
		resp, err := p.Transport(tr).RoundTrip(req)
		require.Nil(t, resp)
		return err
	}
	err := send(http.MethodPost)
	require.ErrorIs(t, err, retry.ErrMaybeProcessed)
	require.ErrorContains(t, err, "POST was not repeated (the server may have processed it)")
	require.EqualValues(t, 1, requests.Swap(0))

	err = send(http.MethodPut)
	require.Error(t, err)
	require.NotErrorIs(t, err, retry.ErrMaybeProcessed)
	require.EqualValues(t, 3, requests.Load())
}

func TestPostThatWasNotSentIsRepeated(t *testing.T) {
	t.Parallel()
	li := core.Must(net.Listen("tcp", "127.0.0.1:0"))
	addr := li.Addr().String()
	require.NoError(t, li.Close())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	defer srv.Close()
	var dials atomic.Int32
	tr := &http.Transport{DialContext: func(ctx context.Context, network, a string) (net.Conn, error) {
		if dials.Add(1) < 3 {
			a = addr
		}
		return (&net.Dialer{}).DialContext(ctx, network, a)
	}}
	defer tr.CloseIdleConnections()
	b := text("a stream that can be read once")
	resp, err := quick(retry.Config{}).Transport(tr).RoundTrip(core.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, b)))
	require.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "a stream that can be read once", string(got))
	require.EqualValues(t, 3, dials.Load())
	require.EqualValues(t, 1, b.closes.Load())
}

func TestGoPeers13_EachAttemptHasAReaderOfItsOwn(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	for name, stream := range map[string]bool{"GetBody": false, "MaxBuffer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attempts := atomic.Int32{}
			srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if attempts.Add(1) < 3 { // before any of the body is read: the transport goes on writing for a while
					w.Header().Set("Connection", "close")
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				n, _ := io.Copy(io.Discard, r.Body)
				w.Header().Set("Got", http.StatusText(int(n>>22)*100))
			}))
			srv.Config.ErrorLog = log.New(io.Discard, "", 0)
			srv.Start()
			defer srv.Close()
			tr := &http.Transport{}
			defer tr.CloseIdleConnections()
			content := strings.Repeat("0123456789abcdef", size/16)
			bodies := []*body{text(content)}
			req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPut, srv.URL, bodies[0]))
			if req.ContentLength = size; !stream {
				req.GetBody = func() (io.ReadCloser, error) {
					bodies = append(bodies, text(content))
					return bodies[len(bodies)-1], nil
				}
			}
			// where the answer is lost in a reset, that is one more failed attempt
			resp, err := quick(retry.Config{MaxAttempts: 20, MaxBuffer: size}).Transport(tr).RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.Equal(t, "Continue", resp.Header.Get("Got"), "all of it")
			require.NoError(t, resp.Body.Close())
			for i, b := range bodies {
				require.Eventually(t, func() bool { return b.closes.Load() == 1 }, 5*time.Second, time.Millisecond, "reader %d", i)
			}
		})
	}
}

func TestGoPeers17_FullDuplex(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		chunk := make([]byte, 5)
		_, _ = io.ReadFull(r.Body, chunk)
		_, _ = w.Write(chunk)
		_ = rc.Flush()
		_, _ = io.Copy(w, r.Body)
	}))
	defer srv.Close()
	tr := client.New(nil, quick(retry.Config{MaxBuffer: 3}))
	defer tr.CloseIdleConnections()
	source, producer := io.Pipe()
	go func() { _, _ = io.WriteString(producer, "first") }()
	resp, err := tr.RoundTrip(core.Must(http.NewRequestWithContext(t.Context(), http.MethodPut, srv.URL, source)))
	require.NoError(t, err, "the headers are here, and the upload has not ended")
	go func() { _, _ = io.WriteString(producer, " second"); _ = producer.Close() }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "first second", string(b))
	require.NoError(t, resp.Body.Close())
}

func TestTerminalErrorsAreNotRetried(t *testing.T) {
	t.Parallel()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	cancelled := errors.Join(errors.New("further in"), context.Canceled)
	for name, tc := range map[string]struct {
		url    string
		header http.Header
		fails  error
		want   int
	}{
		"certificate":          {url: secure.URL, want: 1},
		"certificate, wrapped": {fails: errors.Join(&tls.CertificateVerificationError{Err: errors.New("expired")}), want: 1},
		"scheme":               {url: "ftp://example.test/", want: 1},
		"no host":              {url: "http:///path", want: 1}, // net/http has no type for it, nor has go-retryablehttp a pattern
		"header":               {url: "http://example.test/", header: http.Header{"Bad Name": {"x"}}, want: 1},
		"no such name":         {fails: &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, want: 1},
		"name server down":     {fails: &net.OpError{Op: "dial", Err: &net.DNSError{IsTemporary: true}}, want: 3},
		"cancelled further in": {fails: cancelled, want: 1},
		"deadline further in":  {fails: context.DeadlineExceeded, want: 3},
		"reset":                {fails: &net.OpError{Op: "read", Err: errors.New("reset")}, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := &http.Transport{}
			defer tr.CloseIdleConnections()
			var attempts atomic.Int32
			base := roundTrip(func(req *http.Request) (*http.Response, error) {
				if attempts.Add(1); tc.fails != nil {
					return nil, tc.fails
				}
				return tr.RoundTrip(req)
			})
			req := get(t)
			if tc.url != "" {
				req = core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, tc.url, nil))
			}
			if tc.header != nil {
				req.Header = tc.header
			}
			for _, cfg := range []retry.Config{{}, {RetryIf: func(error) bool { return true }}} {
				attempts.Store(0)
				_, err := do(t, quick(cfg), base, req)
				require.Error(t, err)
				require.EqualValues(t, tc.want, attempts.Load(), "%v", err)
				if tc.fails != nil {
					require.Equal(t, tc.fails, err, "as it is")
				}
			}
		})
	}
}

func TestManyRequestsAtOnce(t *testing.T) {
	t.Parallel()
	const workers, each = 8, 60
	var attempts [workers * each]atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		id, _ := strconv.Atoi(string(b))
		if n := attempts[id].Add(1); int(n) <= id%3 { // 0, 1 or 2 failures
			w.WriteHeader(http.StatusBadGateway)
		}
		_, _ = w.Write(b)
	}))
	defer srv.Close()
	p := core.Must(retry.New(retry.Config{MaxBuffer: 100, Backoff: backoff.Constant{Wait: time.Microsecond, Jitter: 1}}))
	tr := client.New(nil, p)
	defer tr.CloseIdleConnections()
	send := func(id string) error {
		resp, err := tr.RoundTrip(core.Must(http.NewRequestWithContext(t.Context(), http.MethodPut, srv.URL, text(id))))
		if err != nil {
			return err
		}
		b, err := io.ReadAll(resp.Body)
		if _ = resp.Body.Close(); err != nil || string(b) != id || resp.StatusCode != http.StatusOK {
			return errors.Join(err, fmt.Errorf("%s: got %s %s", id, resp.Status, b))
		}
		return nil
	}
	failed := make(chan error, workers)
	for worker := range workers {
		go func() {
			var errs []error
			for i := range each {
				errs = append(errs, send(strconv.Itoa(worker*each+i)))
			}
			failed <- errors.Join(errs...)
		}()
	}
	for range workers {
		require.NoError(t, <-failed)
	}
	s := p.Stats()
	require.EqualValues(t, workers*each/3, s.Succeeded)
	require.EqualValues(t, workers*each*2/3, s.Recovered)
	require.EqualValues(t, workers*each, s.Retries)
}
