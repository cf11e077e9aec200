//nolint:thelper // the functions given to everywhere are the tests
package retry_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

// These are about what net/http does with connections and bodies. Each runs over a
// network in memory, where time is virtual, and over real sockets.

// listens makes a listener: all of one test are in the same network.
type listens func(name string) net.Listener

func everywhere(t *testing.T, test func(t *testing.T, listen listens)) {
	t.Helper()
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			network := resiltest.NewNetwork()
			test(t, func(name string) net.Listener { return network.Listen(name + ":80") })
		})
	})
	t.Run("over sockets", func(t *testing.T) {
		t.Parallel()
		test(t, func(string) net.Listener { return core.Must(net.Listen("tcp", "127.0.0.1:0")) })
	})
}

func to(ctx context.Context, method, url string, body io.Reader) *http.Request {
	return core.Must(http.NewRequestWithContext(ctx, method, url, body))
}

// reuses notes for each attempt whether it had a connection that was used before.
func reuses(ctx context.Context) (context.Context, *[]bool) {
	var reused []bool
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = append(reused, i.Reused) }}), &reused
}

func TestOneConnectionIsEnoughAndNoGoroutineIsLeft(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, listen listens) {
		resiltest.Goroutines(t)
		ctx := context.WithoutCancel(t.Context()) // it never ends, and nothing must hang on it
		s := resiltest.NewScript()
		srv := resiltest.Serve(t, listen("a.test"), s)
		tr := srv.Transport()
		tr.MaxConnsPerHost = 1
		base := resiltest.Count(t, tr)
		rt := quick(retry.Config{}).Transport(base)
		for n := range int64(50) {
			s.Set(status(503, 1<<20), status(503, 1<<20), resiltest.Reply{Body: "done"})
			resp, err := rt.RoundTrip(to(ctx, http.MethodGet, srv.URL, nil))
			require.NoError(t, err)
			require.Equal(t, []int64{3*n + 3, 3*n + 2}, []int64{base.Counts().Opened, base.Counts().Closed})
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "done", string(b))
			require.NoError(t, resp.Body.Close())
		}
		require.Equal(t, 150, s.Calls())
	})
}

func TestShortBodiesKeepTheConnection(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, listen listens) {
		short := status(503, 64<<10)
		srv := resiltest.Serve(t, listen("a.test"), resiltest.NewScript(short, short, status(200, 0)))
		ctx, reused := reuses(t.Context())
		resp, err := quick(retry.Config{}).Transport(srv.Transport()).RoundTrip(to(ctx, http.MethodGet, srv.URL, nil))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, []bool{false, true, true}, *reused)
	})
}

func TestEndlessErrorBodyCostsItsConnection(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, listen listens) {
		s := resiltest.NewScript(resiltest.Reply{Status: 503, Endless: true}, status(200, 0))
		srv := resiltest.Serve(t, listen("a.test"), s)
		tr := srv.Transport()
		var first *resiltest.Body
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			resp, err := tr.RoundTrip(req)
			if err == nil && first == nil {
				first = resiltest.WrapBody(resp.Body)
				resp.Body = first
			}
			return resp, err
		})
		ctx, reused := reuses(t.Context())
		resp, err := quick(retry.Config{}).Transport(base).RoundTrip(to(ctx, http.MethodGet, srv.URL, nil))
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
		require.LessOrEqual(t, first.BytesRead(), int64(64<<10)+1)
		require.Equal(t, 1, first.Closes())
		require.Equal(t, []bool{false, false}, *reused)
		require.Eventually(t, func() bool { open, _ := srv.Conns(); return open == 1 }, resiltest.Patience, time.Millisecond)
	})
}

func TestThePoolIsNotFlushed(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, listen listens) {
		bad := resiltest.Serve(t, listen("bad.test"), resiltest.NewScript(status(503, 0)))
		good := resiltest.Serve(t, listen("good.test"), resiltest.NewScript())
		tr := client.New(good.Transport(), quick(retry.Config{}))
		ctx, reused := reuses(t.Context())
		for _, url := range []string{good.URL, bad.URL, good.URL, bad.URL} {
			resp, err := tr.RoundTrip(to(ctx, http.MethodGet, url, nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		require.Equal(t, []bool{false, false, true, true, true, true, true, true}, *reused)
	})
}

func TestPostWantsAKeyAndHasTheSameBytes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, listen listens) {
		for key, want := range map[string]int{"": 1, "order-17": 3} {
			s := resiltest.NewScript(status(503, 0), status(500, 0))
			srv := resiltest.Serve(t, listen("key"+key), s)
			req := to(t.Context(), http.MethodPost, srv.URL, strings.NewReader("all of the order"))
			if key != "" {
				req.Header.Set("Idempotency-Key", key)
			}
			_, err := do(t, quick(retry.Config{}), srv.Transport(), req)
			require.NoError(t, err)
			require.Equal(t, want, s.Calls())
			for _, a := range s.Attempts() {
				require.Equal(t, "all of the order", a.Body)
				require.EqualValues(t, len(a.Body), a.Request.ContentLength)
			}
		}
	})
}

func TestPostThatMayHaveArrived(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, listen listens) {
		srv := resiltest.ServeConn(t, listen("a.test"), func(c net.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			resiltest.Reset(c)
		})
		tr, p := srv.Transport(), quick(retry.Config{})
		send := func(method string) (int, error) {
			_, before := srv.Conns()
			resp, err := p.Transport(tr).RoundTrip(to(t.Context(), method, srv.URL, strings.NewReader("order")))
			require.Nil(t, resp)
			_, after := srv.Conns()
			return after - before, err
		}
		n, err := send(http.MethodPost)
		require.ErrorIs(t, err, retry.ErrMaybeProcessed)
		require.ErrorContains(t, err, "POST was not repeated (the server may have processed it)")
		require.Equal(t, 1, n)

		n, err = send(http.MethodPut)
		require.Error(t, err)
		require.NotErrorIs(t, err, retry.ErrMaybeProcessed)
		require.Equal(t, 3, n)
	})
}

func TestEachAttemptHasAReaderOfItsOwn(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	for name, stream := range map[string]bool{"GetBody": false, "MaxBuffer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, listen listens) {
				// before any of the body is read: the transport goes on writing for a while
				early := resiltest.Reply{Status: 503, Unread: true, Header: http.Header{"Connection": {"close"}}}
				s := resiltest.NewScript(early, early, status(200, 0))
				srv := resiltest.Serve(t, listen("a.test"), s)
				content := strings.Repeat("0123456789abcdef", size/16)
				bodies := []*resiltest.Body{resiltest.NewBody(content)}
				req := to(t.Context(), http.MethodPut, srv.URL, bodies[0])
				if req.ContentLength = size; !stream {
					req.GetBody = func() (io.ReadCloser, error) {
						bodies = append(bodies, resiltest.NewBody(content))
						return bodies[len(bodies)-1], nil
					}
				}
				// where the answer is lost in a reset, that is one more failed attempt
				resp, err := quick(retry.Config{MaxAttempts: 20, MaxBuffer: size}).Transport(srv.Transport()).RoundTrip(req)
				require.NoError(t, err)
				require.Equal(t, http.StatusOK, resp.StatusCode)
				require.NoError(t, resp.Body.Close())
				require.EqualValues(t, size, s.Attempts()[s.Calls()-1].Size, "all of it")
				for i, b := range bodies {
					require.Eventually(t, func() bool { return b.Closes() == 1 }, resiltest.Patience, time.Millisecond, "reader %d", i)
				}
			})
		})
	}
}

func TestFullDuplex(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, listen listens) {
		srv := resiltest.Serve(t, listen("a.test"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rc := http.NewResponseController(w)
			_ = rc.EnableFullDuplex()
			chunk := make([]byte, 5)
			_, _ = io.ReadFull(r.Body, chunk)
			_, _ = w.Write(chunk)
			_ = rc.Flush()
			_, _ = io.Copy(w, r.Body)
		}))
		source, producer := io.Pipe()
		go func() { _, _ = io.WriteString(producer, "first") }()
		resp, err := quick(retry.Config{MaxBuffer: 3}).Transport(srv.Transport()).RoundTrip(to(t.Context(), http.MethodPut, srv.URL, source))
		require.NoError(t, err, "the headers are here, and the upload has not ended")
		go func() { _, _ = io.WriteString(producer, " second"); _ = producer.Close() }()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "first second", string(b))
		require.NoError(t, resp.Body.Close())
	})
}

func TestATimedOutConnectionIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first resiltest.Reply
		want  []bool
	}{
		"408, body":     {status(408, 10), []bool{false, false}},
		"408, as told":  {status(408, 0, "Connection: close"), []bool{false, false}},
		"421, not sent": {status(421, 10), []bool{false}},
		"425":           {status(425, 10), []bool{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, listen listens) {
				s := resiltest.NewScript(c.first, status(200, 0))
				srv := resiltest.Serve(t, listen("a.test"), s)
				ctx, reused := reuses(t.Context())
				_, err := do(t, quick(retry.Config{}), srv.Transport(), to(ctx, http.MethodPut, srv.URL, strings.NewReader("x")))
				require.NoError(t, err)
				require.Equal(t, c.want, *reused)

				ctx, reused = reuses(t.Context())
				s.Set(c.first)
				_, err = do(t, quick(retry.Config{MaxAttempts: 9}), srv.Transport(), to(ctx, http.MethodGet, srv.URL, nil))
				require.NoError(t, err)
				require.Len(t, *reused, len(c.want), "at most once more")
			})
		})
	}
}
