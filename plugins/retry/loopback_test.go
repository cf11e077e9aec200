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
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

// These run over real sockets: they are about what net/http does with
// connections and bodies.

func TestPostThatWasNotSentIsRepeated(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	defer srv.Close()
	var dials atomic.Int32
	tr := &http.Transport{DialContext: func(ctx context.Context, network, a string) (net.Conn, error) {
		if dials.Add(1) < 3 {
			a = "127.0.0.1:1" // no server, and none that a test beside starts
		}
		return (&net.Dialer{}).DialContext(ctx, network, a)
	}}
	defer tr.CloseIdleConnections()
	b := resiltest.NewBody("a stream that can be read once")
	resp, err := quick(retry.Config{}).Transport(tr).RoundTrip(core.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, b)))
	require.NoError(t, err)
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "a stream that can be read once", string(got))
	require.EqualValues(t, 3, dials.Load())
	require.Equal(t, 1, b.Closes())
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
	p := core.Must(retry.New(retry.Config{MaxBuffer: 100, Backoff: backoff.Linear{Delay: time.Microsecond, Max: time.Microsecond, Jitter: 1}}))
	tr := client.New(nil, p)
	defer tr.CloseIdleConnections()
	send := func(id string) error {
		resp, err := tr.RoundTrip(core.Must(http.NewRequestWithContext(t.Context(), http.MethodPut, srv.URL, resiltest.NewBody(id))))
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
