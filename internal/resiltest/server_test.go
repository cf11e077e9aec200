package resiltest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/resiltest"
)

func TestServerCountsConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := resiltest.NewScript()
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen("a.test:80"), script)
		require.Equal(t, "http://a.test", srv.URL)
		conns := func(wantOpen, wantTotal int) {
			synctest.Wait()
			open, total := srv.Conns()
			require.Equal(t, []int{wantOpen, wantTotal}, []int{open, total})
		}
		get := func(rt http.RoundTripper) {
			_, _, err := fetch(t.Context(), t, rt, srv.URL)
			require.NoError(t, err)
		}
		first, second := srv.Transport(), srv.Transport()
		get(first)
		get(first)
		conns(1, 1)
		get(second)
		conns(2, 2)
		first.CloseIdleConnections()
		conns(1, 2)
	})
}

func TestServerHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := resiltest.NewScript(resiltest.Reply{Body: "fine"}, resiltest.Reply{Body: "half", Reset: true}, resiltest.Reply{Reset: true}, resiltest.Reply{Body: "fine"})
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), script)
		tr := srv.Transport()
		tr.Protocols = resiltest.HTTP2()
		for _, want := range []struct {
			status int
			body   string
			failed bool
		}{{200, "fine", false}, {200, "half", true}, {0, "", true}, {200, "fine", false}} {
			status, body, err := fetch(t.Context(), t, tr, srv.URL)
			require.Equal(t, want.status, status)
			require.Equal(t, want.body, body)
			require.Equal(t, want.failed, err != nil, "%v", err)
		}
		require.Equal(t, 2, script.Attempts()[0].Request.ProtoMajor)
		_, total := srv.Conns()
		require.Equal(t, 1, total, "streams are reset, not the connection")
	})
}

// With Unread, net/http does not see that the client leaves: the server's end ends it.
func TestServerCloseEndsWhatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, reply := range []resiltest.Reply{{Delay: -1}, {Delay: -1, Unread: true}, {Stall: -1}, {Endless: true, Pace: time.Millisecond}, {Body: "x", Pace: -1}} {
			tb := &fakeTB{}
			srv := resiltest.Serve(tb, resiltest.NewNetwork().Listen(""), resiltest.NewScript(reply))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			body, upload := io.Pipe()
			if !reply.Unread {
				_ = upload.Close()
			}
			context.AfterFunc(ctx, func() { _ = upload.Close() }) // net/http waits for it
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, body)
			require.NoError(t, err)
			resp, err := srv.Transport().RoundTrip(req)
			if reply.Delay != 0 {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			} else {
				require.NoError(t, err)
				closed := make(chan struct{})
				time.AfterFunc(time.Second, func() { require.Empty(t, tb.end()); close(closed) })
				_, err = io.Copy(io.Discard, resp.Body)
				require.Error(t, err)
				_ = resp.Body.Close()
				<-closed
			}
			cancel()
			require.Empty(t, tb.end(), "%+v", reply)
		}
	})
}

func TestServerFailsTheTestWhenAHandlerDoesNotEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tb, hangs := &fakeTB{}, make(chan struct{})
		srv := resiltest.Serve(tb, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hangs }))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err := fetch(ctx, t, srv.Transport(), srv.URL)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		start := time.Now()
		failures := tb.end()
		require.Len(t, failures, 1)
		require.Contains(t, failures[0], "have not ended")
		require.InDelta(t, resiltest.Patience, time.Since(start), float64(10*time.Millisecond))
		close(hangs)
	})
}

// fakeTB is a test that may fail.
type fakeTB struct {
	testing.TB

	mu       sync.Mutex
	cleanups []func()
	failures []string
}

func (*fakeTB) Helper()            {}
func (f *fakeTB) Cleanup(c func()) { f.cleanups = append(f.cleanups, c) }

func (f *fakeTB) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

// end ends the test, and tells how it failed.
func (f *fakeTB) end() []string {
	for len(f.cleanups) > 0 {
		last := len(f.cleanups) - 1
		c := f.cleanups[last]
		f.cleanups = f.cleanups[:last]
		c()
	}
	return f.failures
}

func request(ctx context.Context, t *testing.T, method, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	require.NoError(t, err)
	return req
}

// fetch sends a GET and reads all of the answer.
func fetch(ctx context.Context, t *testing.T, rt http.RoundTripper, url string) (int, string, error) {
	t.Helper()
	resp, err := rt.RoundTrip(request(ctx, t, http.MethodGet, url))
	if err != nil {
		return 0, "", err
	}
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, string(b), err
}

var errBoom = errors.New("boom")
