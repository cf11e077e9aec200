package retry_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

const ( // frames of HTTP/2
	headersFrame  = 1
	resetFrame    = 3
	settingsFrame = 4
	goAwayFrame   = 7
)

func frame(kind, flags byte, stream uint32, payload ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind)) //nolint:gosec // it is short
	return append(binary.BigEndian.AppendUint32(append(b, flags), stream), payload...)
}

// framed serves HTTP/2 with what answer says to a stream. It returns a transport for it.
func framed(t *testing.T, answer func(c net.Conn, stream uint32)) (*http.Transport, string) {
	t.Helper()
	srv := resiltest.ServeConn(t, resiltest.NewNetwork().Listen(""), func(c net.Conn) {
		_, _ = c.Write(frame(settingsFrame, 0, 0))
		_, _ = io.CopyN(io.Discard, c, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
		for head := make([]byte, 9); ; {
			if _, err := io.ReadFull(c, head); err != nil {
				return
			}
			_, _ = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head)>>8))
			if head[3] == headersFrame {
				answer(c, binary.BigEndian.Uint32(head[5:]))
			}
		}
	})
	tr := srv.Transport()
	tr.Protocols = resiltest.HTTP2()
	return tr, srv.URL
}

func post(t *testing.T, url string) *http.Request {
	t.Helper()
	return core.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("order")))
}

func TestGoPeers21_NetHTTPRepeatsARefusedStreamItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		streams := 0
		tr, url := framed(t, func(c net.Conn, stream uint32) {
			if streams++; streams == 1 {
				_, _ = c.Write(frame(resetFrame, 0, stream, 0, 0, 0, 7)) // REFUSED_STREAM
				return
			}
			_, _ = c.Write(frame(headersFrame, 5, stream, 0x88)) // :status 200, and the end
		})
		p := quick(retry.Config{})
		resp, err := p.Transport(tr).RoundTrip(post(t, url))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 2, streams)
		require.Equal(t, retry.Stats{Succeeded: 1}, p.Stats())
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
			synctest.Test(t, func(t *testing.T) {
				tr, url := framed(t, func(c net.Conn, stream uint32) {
					_, _ = c.Write(frame(resetFrame, 0, stream, 0, 0, 0, tt.code))
				})
				p := quick(retry.Config{})
				_, err := p.Transport(tr).RoundTrip(post(t, url))
				require.ErrorContains(t, err, name)
				require.Equal(t, tt.retries, p.Stats().Retries)
			})
		})
	}
}

// A server that goes away while it has a request may have processed it.
func TestAPostThatHTTP2WentAwayWithIsNotRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		streams := 0
		tr, url := framed(t, func(c net.Conn, stream uint32) {
			streams++
			_, _ = c.Write(frame(goAwayFrame, 0, 0, 0, 0, 0, byte(stream), 0, 0, 0, 0))
			_ = c.Close()
		})
		_, err := quick(retry.Config{}).Transport(tr).RoundTrip(post(t, url))
		require.ErrorIs(t, err, retry.ErrMaybeProcessed)
		require.Equal(t, 1, streams)
	})
}
