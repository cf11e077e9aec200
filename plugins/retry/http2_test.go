//nolint:thelper // the functions given to everywhere are the tests
package retry_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

// Types of frames, as RFC 9113 numbers them.
const (
	frameData     = 0
	frameHeaders  = 1
	frameRST      = 3
	frameSettings = 4
	frameGoAway   = 7
)

// refusals are the frames by which a server says that it did nothing with a stream.
var refusals = map[string]func(stream uint32) []byte{ //nolint:gochecknoglobals // a constant
	"REFUSED_STREAM": func(stream uint32) []byte { return frame(frameRST, 0, stream, 0, 0, 0, 7) },
	"GOAWAY":         func(uint32) []byte { return frame(frameGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) },
}

func frame(kind, flags byte, stream uint32, payload ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = append(b, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// serveHTTP2 speaks just enough HTTP/2: it asks what to say to each stream, in frames,
// when its headers are there, and if that is nothing, answers 200 once the body has ended.
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
			length := binary.BigEndian.Uint32(head) >> 8
			if _, err := io.CopyN(io.Discard, c, int64(length)); err != nil {
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
			if (kind == frameHeaders || kind == frameData) && flags&1 != 0 && !refused[stream] {
				_, _ = c.Write(frame(frameHeaders, 5, stream, 0x88)) // :status 200, and the end
			}
		}
	}
}

// What net/http knows to be unprocessed it repeats by itself, if it has GetBody: our
// layer sees one attempt.
func TestWhatHTTP2RepeatsItselfIsOneAttempt(t *testing.T) {
	t.Parallel()
	for name, no := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, method := range []string{http.MethodPut, http.MethodPost} {
				everywhere(t, func(t *testing.T, listen listens) {
					resiltest.Goroutines(t)
					var streams atomic.Int32
					srv := resiltest.ServeConn(t, listen("a.test"), serveHTTP2(func(stream uint32) []byte {
						if streams.Add(1) == 1 {
							return no(stream)
						}
						return nil
					}))
					tr := srv.Transport()
					tr.Protocols = resiltest.HTTP2()
					base := resiltest.Count(t, tr)
					p := quick(retry.Config{})
					start := time.Now()
					resp, err := do(t, p, base, to(t.Context(), method, srv.URL, strings.NewReader(strings.Repeat("order", 1000))))
					require.NoError(t, err)
					require.Equal(t, "HTTP/2.0", resp.Proto)
					require.Equal(t, 200, resp.StatusCode)
					require.EqualValues(t, 2, streams.Load())
					require.EqualValues(t, 1, base.Counts().Requests)
					require.Equal(t, retry.Stats{Succeeded: 1}, p.Stats())
					t.Log("it took", time.Since(start))
				})
			}
		})
	}
}

// An attempt that is repeated by us has GetBody, too.
func TestLaterAttemptsHaveGetBody(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, listen listens) {
		var streams atomic.Int32
		srv := resiltest.ServeConn(t, listen("a.test"), serveHTTP2(func(stream uint32) []byte {
			switch streams.Add(1) {
			case 1:
				return frame(frameHeaders, 5, stream, 0x8e) // :status 500
			case 2:
				return frame(frameRST, 0, stream, 0, 0, 0, 7)
			}
			return nil
		}))
		tr := srv.Transport()
		tr.Protocols = resiltest.HTTP2()
		base := resiltest.Count(t, tr)
		resp, err := do(t, quick(retry.Config{}), base, to(t.Context(), http.MethodPut, srv.URL, strings.NewReader("order")))
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
		require.EqualValues(t, 3, streams.Load())
		require.EqualValues(t, 2, base.Counts().Requests)
	})
}

// A server that refuses a stream did nothing with it, so that a POST is repeated. What
// it reset in another way, it may have processed.
func TestAPostThatHTTP2RefusedIsRepeated(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		code    byte
		retries uint64
	}{
		"REFUSED_STREAM": {7, 2}, // of each attempt net/http makes several, and we see the last
		"INTERNAL_ERROR": {2, 0},
		"CANCEL":         {8, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // net/http waits for longer each time
				srv := resiltest.ServeConn(t, resiltest.NewNetwork().Listen(""), serveHTTP2(func(stream uint32) []byte {
					return frame(frameRST, 0, stream, 0, 0, 0, tt.code)
				}))
				tr := srv.Transport()
				tr.Protocols = resiltest.HTTP2()
				p := quick(retry.Config{})
				_, err := do(t, p, tr, to(t.Context(), http.MethodPost, srv.URL, strings.NewReader("order")))
				require.ErrorContains(t, err, name)
				require.Equal(t, tt.retries, p.Stats().Retries)
			})
		})
	}
}

// A server that goes away while it has a request may have processed it.
func TestAPostThatHTTP2WentAwayWithIsNotRepeated(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, listen listens) {
		var streams atomic.Int32
		srv := resiltest.ServeConn(t, listen("a.test"), func(c net.Conn) {
			serveHTTP2(func(stream uint32) []byte {
				streams.Add(1)
				_, _ = c.Write(frame(frameGoAway, 0, 0, 0, 0, 0, byte(stream), 0, 0, 0, 0))
				_ = c.Close()
				return nil
			})(c)
		})
		tr := srv.Transport()
		tr.Protocols = resiltest.HTTP2()
		_, err := do(t, quick(retry.Config{}), tr, to(t.Context(), http.MethodPost, srv.URL, strings.NewReader("order")))
		require.ErrorIs(t, err, retry.ErrMaybeProcessed)
		require.EqualValues(t, 1, streams.Load())
	})
}

// net/http does not repeat a body without GetBody, and says so in an error that wraps none.
func TestAStreamOfAPostThatHTTP2RefusedIsRepeated(t *testing.T) {
	t.Parallel()
	for name, no := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, listen listens) {
				var streams atomic.Int32
				srv := resiltest.ServeConn(t, listen("a.test"), serveHTTP2(func(stream uint32) []byte {
					if streams.Add(1) == 1 {
						return no(stream)
					}
					return nil
				}))
				tr := srv.Transport()
				tr.Protocols = resiltest.HTTP2()
				p := quick(retry.Config{MaxBuffer: 100})
				resp, err := do(t, p, tr, to(t.Context(), http.MethodPost, srv.URL, io.NopCloser(strings.NewReader("order"))))
				require.NoError(t, err)
				require.Equal(t, 200, resp.StatusCode)
				require.EqualValues(t, 1, p.Stats().Retries)
			})
		})
	}
}
