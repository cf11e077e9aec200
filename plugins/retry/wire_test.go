package retry_test

import (
	"bufio"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/resiltest"
)

// around is everything that looks at bodies, around a transport.
func around(base http.RoundTripper) http.RoundTripper {
	return client.New(base, quick(retry.Config{}),
		core.Must(breaker.NewClient(breaker.ClientConfig{JudgeBody: true})),
		timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: time.Minute})), timeout.ClientOptions{}),
		timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: time.Second})), timeout.ClientOptions{PerAttempt: true}))
}

// What was not asked for by 100 Continue was not sent, so that it can be sent again.
func TestAnUploadThatExpectsToContinue(t *testing.T) {
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
		req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPut, srv.URL, b))
		req.ContentLength = 6
		req.Header.Set("Expect", "100-continue")
		resp, err := around(tr).RoundTrip(req)
		require.NoError(t, err)
		got, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "upload", string(got))
		require.Equal(t, 3, requests)
		synctest.Wait()
		require.Equal(t, 1, b.Closes())
	})
}

func TestAnUpgradedConnectionIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer func() { _ = c.Close() }()
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_ = rw.Flush()
			line, _ := rw.ReadString('\n')
			time.Sleep(time.Hour)
			_, _ = rw.WriteString(line)
			_ = rw.Flush()
		}))
		req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil))
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "echo")
		resp, err := around(srv.Transport()).RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
		conn, ok := resp.Body.(io.ReadWriteCloser)
		require.True(t, ok)
		_, err = io.WriteString(conn, "hello\n")
		require.NoError(t, err)
		line, err := bufio.NewReader(conn).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "hello\n", line)
		require.NoError(t, conn.Close())
	})
}

func TestResponsesThatHaveNoBodyShareAConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", map[bool]string{true: "1000000"}[r.Method == http.MethodHead])
			w.WriteHeader(map[string]int{"/no": http.StatusNoContent, "/same": http.StatusNotModified, "/busy": http.StatusServiceUnavailable}[r.URL.Path])
		}))
		tr := srv.Transport()
		tr.MaxConnsPerHost = 1
		rt := around(tr)
		for _, tt := range [][2]string{{http.MethodGet, "/no"}, {http.MethodGet, "/same"}, {http.MethodHead, "/busy"}, {http.MethodGet, "/no"}} {
			resp, err := rt.RoundTrip(core.Must(http.NewRequestWithContext(t.Context(), tt[0], srv.URL+tt[1], nil)))
			require.NoError(t, err)
			require.Equal(t, http.NoBody, resp.Body)
		}
		_, total := srv.Conns()
		require.Equal(t, 1, total)
	})
}
