package breaker_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/resiltest"
)

// losesTheSecond serves HTTP/1. It closes a connection after the second request on it,
// which net/http sends again on another one.
func losesTheSecond(c net.Conn) {
	from := bufio.NewReader(c)
	for range 2 {
		req, err := http.ReadRequest(from)
		if err != nil {
			break
		}
		_, _ = io.Copy(io.Discard, req.Body)
		if req.ContentLength == 0 {
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	}
	_ = c.Close()
}

// refusesTheSecond serves HTTP/2 by frames. It refuses the second stream, which net/http
// sends again.
func refusesTheSecond(c net.Conn) {
	defer func() { _ = c.Close() }()
	_, _ = io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
	_, _ = c.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // SETTINGS
	for head := make([]byte, 9); ; {
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		_, _ = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head)>>8))
		switch stream := head[5:9]; {
		case head[3] == 4 && head[4] == 0:
			_, _ = c.Write([]byte{0, 0, 0, 4, 1, 0, 0, 0, 0}) // its acknowledgment
		case head[3] == 1 && stream[3] == 1: // HEADERS
			_, _ = c.Write(append([]byte{0, 0, 1, 1, 5}, append(stream, 0x89)...)) // 204
		case head[3] == 1 && stream[3] == 3:
			_, _ = c.Write(append([]byte{0, 0, 4, 3, 0}, append(stream, 0, 0, 0, 7)...)) // REFUSED_STREAM
		}
	}
}

func TestABodyThatNetHTTPFetchesByItselfSaysNothingOfTheServer(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]func() (io.Reader, error){
		"a read fails": func() (io.Reader, error) {
			return io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(errRead)), nil
		},
		"it goes on": func() (io.Reader, error) {
			return io.LimitReader(strings.NewReader(strings.Repeat("x", 1001)), 1001), nil
		},
		"it trickles":   func() (io.Reader, error) { return trickle(10 * time.Millisecond), nil },
		"GetBody fails": func() (io.Reader, error) { return nil, errRead },
	} {
		for version, serve := range map[string]func(net.Conn){"HTTP/1": losesTheSecond, "HTTP/2": refusesTheSecond} {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(time.Minute) // what the server and the last read do
				network := resiltest.NewNetwork()
				listener := network.Listen(host + ":80")
				defer func() { _ = listener.Close() }()
				ended := make(chan struct{})
				defer close(ended)
				go func() {
					for {
						c, err := listener.Accept()
						if err != nil {
							return
						}
						go serve(c)
						go func() { <-ended; _ = c.Close() }()
					}
				}()
				base := &http.Transport{DialContext: network.DialContext}
				defer base.CloseIdleConnections()
				if version == "HTTP/2" {
					base.Protocols = resiltest.HTTP2()
				}
				breakers := newClient(t, breaker.ClientConfig{})
				limited := arrangements(breakers, base, time.Second)["breaker, timeout"]
				resp, err := get(t.Context(), limited, "http://"+host)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				req := upload(t.Context(), io.LimitReader(strings.NewReader(strings.Repeat("x", 1000)), 1000), 1000)
				req.Header["Idempotency-Key"] = nil // net/http repeats it
				fetched := 0
				req.GetBody = func() (io.ReadCloser, error) {
					fetched++
					body, err := second()
					return io.NopCloser(body), err
				}
				_, err = limited.RoundTrip(req)
				require.Error(t, err)
				require.Equal(t, 1, fetched, "%s: %s: %v", version, name, err)
				require.EqualValues(t, 1, breakers.Stats().Ignored, "%s: %s: %v", version, name, err)
				require.Zero(t, breakers.Stats().Failures)
			})
		}
	}
}
