package retry_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/retry"
)

// These are about what net/http does with connections and bodies.

func to(ctx context.Context, method, url string, body io.Reader) *http.Request {
	return core.Must(http.NewRequestWithContext(ctx, method, url, body))
}

func TestOneConnectionIsEnough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.WithoutCancel(t.Context()) // it never ends, and nothing must hang on it
		s := resiltest.NewScript()
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), s)
		tr := srv.Transport()
		tr.MaxConnsPerHost = 1
		base := resiltest.Count(t, tr)
		rt := quick(retry.Config{}, retry.ClientOptions{}).Transport(base)
		for n := range int64(50) {
			s.Set(status(503, 1<<20), status(503, 1<<20), resiltest.Reply{Body: "done"})
			resp, err := rt.RoundTrip(to(ctx, http.MethodGet, srv.URL, nil))
			require.NoError(t, err)
			require.Equal(t, []int64{3*n + 3, 3*n + 2}, []int64{base.Counts().Opened, base.Counts().Closed})
			require.Equal(t, "done", string(core.Must(io.ReadAll(resp.Body))))
			require.NoError(t, resp.Body.Close())
		}
	})
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first resiltest.Reply
		want  []bool
	}{
		"short body": {status(503, 64<<10), []bool{false, true}},
		"endless":    {resiltest.Reply{Status: 503, Endless: true}, []bool{false, false}},
		"408":        {status(408, 10), []bool{false, false}},
		"425":        {status(425, 10), []bool{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), resiltest.NewScript(tt.first, status(200, 0)))
				var reused []bool
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = append(reused, i.Reused) }})
				_, err := do(t, quick(retry.Config{}, retry.ClientOptions{}), srv.Transport(), to(ctx, http.MethodGet, srv.URL, nil))
				require.NoError(t, err)
				require.Equal(t, tt.want, reused)
			})
		})
	}
}

// A stream of any size that was not read is sent again without a copy.
func TestUploadIsNotBuffered(t *testing.T) { //nolint:paralleltest // memory is counted
	const size = 64 << 20
	calls := 0
	rt := quick(retry.Config{}, retry.ClientOptions{}).Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
		if calls++; calls < 3 {
			return nil, &net.OpError{Op: "dial", Err: io.EOF}
		}
		n, err := io.Copy(io.Discard, struct{ io.Reader }{req.Body})
		_ = req.Body.Close()
		require.EqualValues(t, size, n)
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, err
	}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := rt.RoundTrip(request(t.Context(), http.MethodPost, io.LimitReader(zeros{}, size)))
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Equal(t, 3, calls)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// What was not asked for by 100 Continue was not sent, so that it can be sent again.
func TestUploadThatExpectsToContinue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if requests++; requests < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = io.Copy(w, r.Body)
		}))
		tr := srv.Transport()
		tr.ExpectContinueTimeout, tr.MaxConnsPerHost = time.Minute, 1
		b := resiltest.NewBody("upload")
		req := to(t.Context(), http.MethodPut, srv.URL, b)
		req.ContentLength = 6
		req.Header.Set("Expect", "100-continue")
		resp, err := quick(retry.Config{}, retry.ClientOptions{}).Transport(tr).RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, "upload", string(core.Must(io.ReadAll(resp.Body))))
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 3, requests)
		synctest.Wait()
		require.Equal(t, 1, b.Closes())
	})
}

// A redirect begins a request of its own, which http.Client makes.
func TestRedirects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := resiltest.NewScript(status(503, 10), status(307, 10, "Location: /next"), status(502, 10), status(200, 2))
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), s)
		req := to(t.Context(), http.MethodPost, srv.URL+"/first", strings.NewReader("order"))
		req.Header.Set("Idempotency-Key", "17")
		resp, err := (&http.Client{Transport: quick(retry.Config{}, retry.ClientOptions{}).Transport(srv.Transport())}).Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		var got []string
		for _, a := range s.Attempts() {
			got = append(got, a.Request.URL.Path+" "+a.Body)
		}
		require.Equal(t, []string{"/first order", "/first order", "/next order", "/next order"}, got)
	})
}

// Types of frames, as RFC 9113 numbers them.
const (
	frameHeaders  = 1
	frameRST      = 3
	frameSettings = 4
	frameGoAway   = 7
)

func frame(kind, flags byte, stream uint32, payload ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = append(b, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// serveHTTP2 speaks just enough HTTP/2: it asks what to say to each stream, in frames, and if that is nothing, answers 200 once the
// body has ended.
func serveHTTP2(refuse func(stream uint32) []byte) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
			return
		}
		_, _ = c.Write(frame(frameSettings, 0, 0))
		refused := map[uint32]bool{}
		for head := make([]byte, 9); ; {
			if _, err := io.ReadFull(c, head); err != nil {
				return
			}
			if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head)>>8)); err != nil {
				return
			}
			kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
			if kind == frameSettings && flags == 0 {
				_, _ = c.Write(frame(frameSettings, 1, 0))
			}
			if kind == frameHeaders {
				if no := refuse(stream); no != nil {
					refused[stream] = true
					_, _ = c.Write(no)
				}
			}
			if kind <= frameHeaders && flags&1 != 0 && !refused[stream] {
				_, _ = c.Write(frame(frameHeaders, 5, stream, 0x88)) // :status 200, and the end
			}
		}
	}
}

// A server that refuses a stream did nothing with it, so that a POST is repeated. What it reset in another way, it may have processed.
func TestPostThatHTTP2Refuses(t *testing.T) {
	t.Parallel()
	reset := func(code byte) func(uint32) []byte {
		return func(stream uint32) []byte { return frame(frameRST, 0, stream, 0, 0, 0, code) }
	}
	for name, tt := range map[string]struct {
		no    func(stream uint32) []byte
		again bool
	}{
		"REFUSED_STREAM": {reset(7), true},
		"INTERNAL_ERROR": {reset(2), false},
		"CANCEL":         {reset(8), false},
		"GOAWAY":         {func(uint32) []byte { return frame(frameGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // net/http waits for longer each time
				var streams atomic.Int32
				srv := resiltest.ServeConn(t, resiltest.NewNetwork().Listen(""), serveHTTP2(func(stream uint32) []byte {
					if streams.Add(1) == 1 {
						return tt.no(stream)
					}
					return nil
				}))
				tr := srv.Transport()
				tr.Protocols = resiltest.HTTP2()
				p := quick(retry.Config{}, retry.ClientOptions{MaxBuffer: 100})
				_, err := do(t, p, tr, to(t.Context(), http.MethodPost, srv.URL, io.NopCloser(strings.NewReader("order"))))
				require.Equal(t, tt.again, err == nil, "%v", err)
			})
		})
	}
}
