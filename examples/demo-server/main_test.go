package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/examples/internal/demoserver"
	"github.com/gresil/gresil/examples/internal/demotest"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/redisserver"
)

// TestMain keeps go-redis from logging each connection to a server that a test has stopped.
func TestMain(m *testing.M) {
	logging.Disable()
	demotest.Main(m, main)
}

// start runs the server on a free port and returns its URL. stop ends it and returns its exit code.
func start(tb testing.TB, args ...string) (url string, stop func() int) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, stdout := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- demoserver.Run(ctx, append([]string{"-addr", "127.0.0.1:0"}, args...), stdout, os.Stderr)
		_ = stdout.Close()
	}()
	stop = sync.OnceValue(func() int { cancel(); return <-code })
	tb.Cleanup(func() { stop() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(tb, err)
	return strings.TrimSpace(line), stop
}

// ask sends a request with a key or without, and returns the response and its body.
func ask(tb testing.TB, method, url, body string, key ...string) (*http.Response, string) {
	tb.Helper()
	return demotest.Request(tb, method, url, http.Header{"X-Api-Key": key}, body)
}

// passes sends n requests at once, and counts those that pass. check looks at each.
func passes(tb testing.TB, n int, send func(i int) *http.Response, check func(*http.Response)) (passed int) {
	tb.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			resp := send(i)
			mu.Lock()
			defer mu.Unlock()
			if resp.StatusCode == http.StatusOK {
				passed++
			}
			check(resp)
		})
	}
	wg.Wait()
	return passed
}

func TestLimitOfEachKey(t *testing.T) {
	t.Parallel()
	url, stop := start(t, "-limit", "20", "-period", "1h")
	for _, key := range []string{"ann", ""} { // without a key, it is the IP of the client
		passed := passes(t, 60, func(i int) *http.Response {
			// A header that a client may forge changes nothing: its peer is not trusted.
			header := http.Header{"X-Forwarded-For": {fmt.Sprintf("198.51.100.%d", i)}}
			if key != "" {
				header.Set("X-API-Key", key)
			}
			resp, _ := demotest.Request(t, http.MethodGet, url+"/hello", header, "")
			return resp
		}, func(resp *http.Response) {
			if resp.StatusCode == http.StatusOK {
				require.Equal(t, "false", resp.Header.Get("X-Rate-Limited"))
				return
			}
			require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			require.Regexp(t, `^3[56]\d\d$`, resp.Header.Get("Retry-After"))
			require.Equal(t, "true", resp.Header.Get("X-Rate-Limited"))
			require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
		})
		require.Equal(t, 20, passed, key)
	}
	require.Zero(t, stop())
}

func TestServersOnOneRedis(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"strict", "coalesced"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			quiettest.Test(t, func(t *quiettest.T) { // the server gives up a decision after a second
				srv, err := redisserver.Start(t.TempDir())
				require.NoError(t, err)
				t.Cleanup(srv.Kill)
				args := []string{"-limit", "20", "-period", "1h", "-redis", srv.Addr, "-mode", mode}
				a, stopA := start(t, args...)
				b, stopB := start(t, args...)
				hello := func(url, key string) *http.Response {
					resp, _ := ask(t, http.MethodGet, url+"/hello", "", key)
					return resp
				}
				passed := passes(t, 60, func(i int) *http.Response { return hello([]string{a, b}[i%2], "ann") }, func(*http.Response) {})
				require.Equal(t, 20, passed)
				require.Zero(t, stopA())
				require.Zero(t, stopB())
				c, _ := start(t, args...)
				require.Equal(t, http.StatusTooManyRequests, hello(c, "ann").StatusCode, "a server that starts later finds what was taken")
				srv.Kill()
				require.Equal(t, http.StatusServiceUnavailable, hello(c, "bob").StatusCode, "nobody counts")
				resp, _ := ask(t, http.MethodGet, c+"/health", "")
				require.Equal(t, http.StatusOK, resp.StatusCode)
			})
		})
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	url, _ := start(t, "-limit", "1", "-period", "1h")
	kib := func(n int) string { return strings.Repeat("x", n<<10) }
	for _, c := range []struct {
		method, path, key, body string
		status                  int
		ratelimit, text         string // parts of the field, and of the body
	}{
		{"POST", "/upload", "large", kib(101), 413, ";r=100", ""}, // nothing is consumed, since waiting does not help
		{"POST", "/upload", "k", kib(40) + "x", 200, ";r=59", "40961 bytes\n"},
		{"POST", "/upload", "k", kib(99), 429, ";r=", ""},
		{"POST", "/upload", "small", "", 200, ";r=99", "0 bytes\n"}, // at least 1
		{"GET", "/hello", "k", "", 200, ";r=0", "hello\n"},
		{"GET", "/hello", "k", "", 429, ";r=0", ""},
		{"GET", "/search", "k", "", 200, ";r=4", "found\n"}, // has a bucket of its own
		{"GET", "/health", "k", "", 200, "", "ok\n"},
		{"GET", "/flaky?id=a&fail=1", "", "", 503, "", "attempt 1 fails"},
		{"GET", "/flaky?id=b&fail=1", "", "", 503, "", "attempt 1 fails"}, // each id has a count of its own
		{"GET", "/flaky?id=a&fail=1", "", "", 200, "", `{"attempts":2}`},
		{"POST", "/unstable/down", "", "", 204, "", ""},
		{"GET", "/unstable", "", "", 500, "", "down"},
		{"POST", "/unstable/up", "", "", 204, "", ""},
		{"GET", "/unstable", "", "", 200, "", "up"},
		{"GET", "/slow?d=1ms", "", "", 200, "", "at last"},
		{"GET", "/flaky?id=x&fail=-1", "", "", 400, "", "want id=ID"},
		{"GET", "/flaky?fail=1", "", "", 400, "", "want id=ID"},
		{"GET", "/slow?d=31s", "", "", 400, "", "want d=DURATION"},
		{"GET", "/slow", "", "", 400, "", "want d=DURATION"},
		{"GET", "/metrics", "", "", 200, "", `resilience_ratelimit_requests_total{name="demo",result="throttled"} 1`},
	} {
		resp, text := ask(t, c.method, url+c.path, c.body, c.key)
		require.Equal(t, c.status, resp.StatusCode, c)
		require.Contains(t, resp.Header.Get("Ratelimit"), c.ratelimit, c)
		require.Equal(t, c.ratelimit == "", len(resp.Header.Values("X-Rate-Limited")) == 0, c)
		require.Contains(t, text, c.text, c)
	}

	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	_, err = io.WriteString(conn, "POST /upload HTTP/1.1\r\nHost: demo\r\nX-API-Key: k\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.Contains(t, string(answer), "HTTP/1.1 411 Length Required", "no header and no body, as curl -X POST sends it")
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	demotest.WrongCommandLines(t, demo.Command{Whole: demoserver.Run}, map[string]string{
		"-colour red": "flag provided but not defined: -colour",
		"-limit many": `invalid value "many" for flag -limit`,
		"-limit 0":    `invalid value "0" for flag -limit: must be a whole number, 1 to 1000000`,
		"-period 0s":  "demo-server: ratelimit.Config.Limit = 20/0s: must have",
		"-mode lazy":  `invalid value "lazy" for flag -mode: must be strict, coalesced`,
		"extra":       `unexpected argument "extra"`,
	})
}

func TestServerCannotStart(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-redis localhost":         "demo-server: -redis localhost: redisstore: the server cannot be reached",
		"-redis 127.0.0.1:1":       "demo-server: -redis 127.0.0.1:1: redisstore: the server cannot be reached: dial tcp 127.0.0.1:1",
		"-addr 127.0.0.1:notaport": "demo-server: listen tcp",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			require.Equal(t, 1, demoserver.Run(t.Context(), strings.Fields(args), io.Discard, &stderr))
			require.Contains(t, stderr.String(), want)
		})
	}
}

// What is in flight is finished.
func TestSignalsEndServer(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-addr", "127.0.0.1:0")
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(stdout).ReadString('\n')
		require.NoError(t, err)
		dial := func() (net.Conn, error) {
			return (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(strings.TrimSpace(line), "http://"))
		}
		conn, err := dial()
		require.NoError(t, err)
		answers := bufio.NewReader(conn)
		_, err = io.WriteString(conn, "POST /upload HTTP/1.1\r\nHost: demo\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
		require.NoError(t, err)
		resp, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusContinue, resp.StatusCode, "the handler reads the body")
		require.NoError(t, cmd.Process.Signal(sig))
		require.Eventually(t, func() bool {
			other, err := dial()
			if err == nil {
				_ = other.Close()
			}
			return err != nil
		}, time.Minute, 10*time.Millisecond)
		_, err = io.WriteString(conn, "last")
		require.NoError(t, err)
		resp, err = http.ReadResponse(answers, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "4 bytes\n", string(body))
		require.NoError(t, conn.Close())
		require.NoError(t, cmd.Wait(), "exit code 0")
	}
}
