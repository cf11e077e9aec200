package retry_test

import (
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

// It is a 429 of HTTP/2: the server is up, and takes the request later.
func TestEnhanceYourCalmIsRetriedAndIsNoFailure(t *testing.T) {
	t.Parallel()
	const calm = 11
	for name, answer := range map[string]func(c net.Conn, stream uint32) []byte{
		"the stream is reset": func(_ net.Conn, stream uint32) []byte {
			return frame(frameRST, 0, stream, 0, 0, 0, calm)
		},
		"the connection ends before the first request": func(net.Conn, uint32) []byte {
			return frame(frameGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0, calm)
		},
		"the connection ends with the request": func(c net.Conn, stream uint32) []byte {
			_, _ = c.Write(frame(frameGoAway, 0, 0, 0, 0, 0, byte(stream), 0, 0, 0, calm))
			_ = c.Close()
			return nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var streams atomic.Int32
			srv := resiltest.ServeConn(t, resiltest.NewNetwork().Listen(""), func(c net.Conn) {
				serveHTTP2(func(stream uint32) []byte {
					streams.Add(1)
					return answer(c, stream)
				})(c)
			})
			tr := srv.Transport()
			tr.Protocols = resiltest.HTTP2()
			group := core.Must(breaker.NewGroup(breaker.Config{}))
			breakers := breaker.NewClient(group, breaker.ClientOptions{})
			p := quick(retry.Config{})
			_, err := do(t, p, breakers.Transport(tr), to(t.Context(), http.MethodGet, srv.URL, nil))
			require.Error(t, err)
			require.EqualValues(t, 2, p.Stats().Retries, "%s: %v", name, err)
			require.EqualValues(t, 3, streams.Load(), name)
			require.EqualValues(t, 3, group.Stats().Successes, "%s: %v", name, err)
			require.Equal(t, core.Success, client.Classify(t.Context(), nil, err))
			if name == "the stream is reset" {
				_, err = do(t, p, tr, to(t.Context(), http.MethodPost, srv.URL, nil))
				require.ErrorIs(t, err, retry.ErrMaybeProcessed, "as after a 429")
			}
		})
	}
}
