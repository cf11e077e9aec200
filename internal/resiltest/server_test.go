package resiltest_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
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
		srv.ResetConns()
		conns(0, 2)
		get(second)
		conns(1, 3)
		srv.Close()
		conns(0, 3)
		_, _, err := fetch(t.Context(), t, first, srv.URL)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
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
				time.AfterFunc(time.Second, func() { srv.Close(); close(closed) })
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

func TestServerLogsPanicsUntilItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tb := &fakeTB{}
		srv := resiltest.Serve(tb, resiltest.NewNetwork().Listen(""), resiltest.NewScript(resiltest.Reply{Panic: "oh"}, resiltest.Reply{Panic: http.ErrAbortHandler}))
		for range 2 {
			_, _, err := fetch(t.Context(), t, srv.Transport(), srv.URL)
			require.Error(t, err)
		}
		require.Empty(t, tb.end())
		require.Len(t, tb.logged, 1)
		require.Contains(t, tb.logged[0], "panic serving 192.0.2.1:")
	})
}

func TestServeConnReadsAndHangsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := resiltest.NewNetwork()
		var got atomic.Int32
		srv := resiltest.ServeConn(t, n.Listen(""), func(c net.Conn) {
			got.Add(1)
			_, _ = c.Read(make([]byte, 4096))
		})
		req := request(t.Context(), t, http.MethodPost, srv.URL, "order")
		_, err := srv.Transport().RoundTrip(req)
		require.Error(t, err)
		require.EqualValues(t, 1, got.Load())
		_, total := srv.Conns()
		require.Equal(t, 1, total)

		hung := resiltest.ServeConn(t, n.Listen("hung.test:80"), func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _, err = fetch(ctx, t, hung.Transport(), hung.URL)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// Frames of HTTP/2 are short enough to be written by hand.
func TestServeConnRefusesAStreamOfHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const headers, reset, settings = 1, 3, 4
		frame := func(kind, flags byte, stream uint32, payload ...byte) []byte {
			b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind)) //nolint:gosec // it is short
			return append(binary.BigEndian.AppendUint32(append(b, flags), stream), payload...)
		}
		refused := 0
		srv := resiltest.ServeConn(t, resiltest.NewNetwork().Listen(""), func(c net.Conn) {
			_, _ = c.Write(frame(settings, 0, 0))
			_, _ = io.CopyN(io.Discard, c, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
			for head := make([]byte, 9); ; {
				if _, err := io.ReadFull(c, head); err != nil {
					return
				}
				_, _ = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head)>>8))
				if head[3] != headers {
					continue
				}
				stream := binary.BigEndian.Uint32(head[5:])
				if refused++; refused == 1 {
					_, _ = c.Write(frame(reset, 0, stream, 0, 0, 0, 7)) // REFUSED_STREAM
				} else {
					_, _ = c.Write(frame(headers, 5, stream, 0x88)) // :status 200, and the end
				}
			}
		})
		tr := srv.Transport()
		tr.Protocols = resiltest.HTTP2()
		resp, err := tr.RoundTrip(request(t.Context(), t, http.MethodPost, srv.URL, "order"))
		require.NoError(t, err, "net/http sends it again")
		require.Equal(t, 200, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 2, refused)
	})
}

func TestManyClientsOnSockets(t *testing.T) {
	t.Parallel()
	script := resiltest.NewScript(resiltest.Reply{Do: func(req *http.Request) (*http.Response, error) {
		if strings.HasSuffix(req.URL.Path, "7") {
			return nil, errBoom
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(strings.NewReader(req.URL.Path))}, nil
	}})
	srv := resiltest.NewServer(t, script)
	c := resiltest.Count(t, srv.Transport())
	done := make(chan int)
	for worker := range 8 {
		go func() {
			failed := 0
			for i := range 10 {
				path := "/" + string(rune('a'+worker)) + string(rune('0'+i))
				_, body, err := fetch(t.Context(), t, c, srv.URL+path)
				if err != nil {
					failed++
				} else if body != path {
					failed += 100
				}
			}
			done <- failed
		}()
	}
	for range 8 {
		require.Equal(t, 1, <-done)
	}
	n := c.Counts()
	require.EqualValues(t, 80, n.Requests)
	require.EqualValues(t, 72, n.Opened)
	require.EqualValues(t, 72, n.Closed)
	require.Zero(t, n.InFlight)
}
