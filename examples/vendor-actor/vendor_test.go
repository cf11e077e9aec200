package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/programtest"
	"github.com/gresil/gresil/internal/escalating"
)

func TestTheVendorOverHTTP(t *testing.T) {
	t.Parallel()
	v := escalating.New(time.Second, 1000)
	srv := httptest.NewServer(newVendor(v))
	t.Cleanup(srv.Close)
	resp, body := programtest.Request(t, http.MethodGet, srv.URL+"/report?account=a&n=1", http.Header{}, "")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.JSONEq(t, `{"account":"a","n":"1"}`, body)
	for _, bad := range []string{"/report", "/report?account=a", "/report?n=1"} {
		resp, _ = programtest.Request(t, http.MethodGet, srv.URL+bad, http.Header{}, "")
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, bad)
	}
	resp, _ = programtest.Request(t, http.MethodPost, srv.URL+"/report?account=a&n=1", http.Header{}, "")
	require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
	resp, body = programtest.Request(t, http.MethodGet, srv.URL+"/judge", http.Header{}, "")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.JSONEq(t, `{"arrivals":1,"unique":1,"duplicates":0,"most_sliding":1,"most_fixed":1,"seconds":0,"trips":0,"escalations":0,"worst_penalty_s":0}`, body)
}

func TestARefusalHasBothHeaders(t *testing.T) {
	t.Parallel()
	v := escalating.New(time.Hour, 0.1) // a second is 10, and a pause 150
	for range 100 {
		go func() { _, _ = v.Call(t.Context(), "n") }()
	}
	require.Eventually(t, func() bool { return v.Verdict().Arrivals == 100 }, time.Minute, time.Millisecond)
	srv := httptest.NewServer(newVendor(v))
	t.Cleanup(srv.Close)
	resp, _ := programtest.Request(t, http.MethodGet, srv.URL+"/report?account=a&n=1", http.Header{}, "")
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Equal(t, "150", resp.Header.Get("Retry-After"))
	require.Equal(t, "150000", resp.Header.Get("X-Retry-After-Ms"))
}

func TestCeil(t *testing.T) {
	t.Parallel()
	require.Equal(t, "1", ceil(1, time.Second))
	require.Equal(t, "1", ceil(time.Second, time.Second))
	require.Equal(t, "1001", ceil(time.Second+1, time.Millisecond))
}

// TestTheVendorEndsWithTheProgram: however the program ends, a connection to its vendor ends too.
func TestTheVendorEndsWithTheProgram(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{os.Interrupt, os.Kill} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-json", "-rate", "600")
			stderr, err := cmd.StderrPipe()
			require.NoError(t, err)
			var stdout strings.Builder
			cmd.Stdout = &stdout
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(stderr)
			require.True(t, lines.Scan())
			addr, ok := strings.CutPrefix(lines.Text(), "vendor: http://")
			require.True(t, ok, lines.Text())
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
			require.NoError(t, err)
			_, err = io.WriteString(conn, "GET /judge HTTP/1.1\r\nHost: vendor\r\n\r\n")
			require.NoError(t, err)
			require.True(t, lines.Scan(), "it is under way")
			require.NoError(t, cmd.Process.Signal(sig))
			_, _ = io.Copy(io.Discard, stderr)
			err = cmd.Wait()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
			_, err = io.Copy(io.Discard, conn)
			require.False(t, errors.Is(err, os.ErrDeadlineExceeded))
			require.NoError(t, conn.Close())
			if sig == os.Interrupt {
				require.Equal(t, 1, exit.ExitCode(), "not all were served")
				require.Contains(t, stdout.String(), `"judged":true`)
				require.Contains(t, stdout.String(), `"problem":"interrupted; `)
			}
		})
	}
}
