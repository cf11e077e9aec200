package resiltest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/resiltest"
)

func TestServerCountsConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := resiltest.Serve(t, resiltest.NewNetwork(), resiltest.NewScript())
		require.Equal(t, "http://server.test", srv.URL)
		first, second := srv.Transport(), srv.Transport()
		for _, step := range []struct {
			do          func()
			open, total int64
		}{
			{func() { get(t, first, srv.URL) }, 1, 1},
			{func() { get(t, first, srv.URL) }, 1, 1},
			{func() { get(t, second, srv.URL) }, 2, 2},
			{first.CloseIdleConnections, 1, 2},
		} {
			step.do()
			synctest.Wait()
			require.Equal(t, []int64{step.open, step.total}, []int64{srv.Open.Load(), srv.Total.Load()})
		}
	})
}

func TestServerHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := resiltest.NewScript(resiltest.Reply{Body: "fine"}, resiltest.Reply{Body: "half", Reset: true}, resiltest.Reply{Reset: true}, resiltest.Reply{Body: "fine"})
		srv := resiltest.Serve(t, resiltest.NewNetwork(), script)
		tr := srv.Transport()
		tr.Protocols = resiltest.HTTP2()
		for _, want := range []string{"200 fine false", "200 half true", "0  true", "200 fine false"} {
			status, body, err := fetch(t.Context(), t, tr, srv.URL)
			require.Equal(t, want, fmt.Sprint(status, " ", body, " ", err != nil), "%v", err)
		}
		require.Equal(t, 2, script.Attempts()[0].Request.ProtoMajor)
		require.EqualValues(t, 1, srv.Total.Load(), "streams are reset, not the connection")
	})
}

// With Unread, net/http does not see that the client leaves: the server's end ends it.
func TestServerCloseEndsWhatHangs(t *testing.T) {
	t.Parallel()
	for _, reply := range []resiltest.Reply{{Delay: -1}, {Delay: -1, Unread: true}, {Stall: -1}, {Endless: true, Pace: time.Millisecond}, {Body: "x", Pace: -1}} {
		synctest.Test(t, func(t *testing.T) {
			srv := resiltest.Serve(t, resiltest.NewNetwork(), resiltest.NewScript(reply))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			t.Cleanup(cancel)
			body, upload := io.Pipe()
			if !reply.Unread {
				_ = upload.Close()
			}
			context.AfterFunc(ctx, func() { _ = upload.Close() }) // net/http waits for it
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, body)
			require.NoError(t, err)
			_, err = srv.Transport().RoundTrip(req)
			require.Equal(t, reply.Delay != 0, errors.Is(err, context.DeadlineExceeded), "%v", err)
		})
	}
}

func TestCounterFailsTheTestWhenABodyIsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tb := &fakeTB{}
		c := resiltest.Count(tb, resiltest.NewScript(resiltest.Reply{Body: "x"}))
		get(t, c, "http://a.test")
		resp, err := c.RoundTrip(request(t.Context(), t, http.MethodGet, "http://a.test"))
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		tb.end()
		require.Equal(t, "resiltest: of 2 requests, 1 bodies are not closed, and 0 are in flight", tb.failure)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, resp.Body.Close())
		require.True(t, c.Settled())
	})
}

// fakeTB is a test that may fail.
type fakeTB struct {
	testing.TB

	end     func()
	failure string
}

func (*fakeTB) Helper()                             {}
func (f *fakeTB) Cleanup(c func())                  { f.end = c }
func (f *fakeTB) Errorf(format string, args ...any) { f.failure = fmt.Sprintf(format, args...) }

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

func get(t *testing.T, rt http.RoundTripper, url string) (status int) {
	t.Helper()
	status, _, err := fetch(t.Context(), t, rt, url)
	require.NoError(t, err)
	return status
}

var errBoom = errors.New("boom")
