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
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demoserver"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/redisserver"
)

// TestMain keeps go-redis from logging each connection to a server that a test has stopped.
func TestMain(m *testing.M) {
	logging.Disable()
	os.Exit(m.Run())
}

// lineWriter hands out the first line that is written to it.
type lineWriter struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	line chan string
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, _, _ := strings.Cut(w.buf.String(), "\n")
	w.buf.Write(p)
	if line, _, ok := strings.Cut(w.buf.String(), "\n"); ok && line != before {
		w.line <- line
	}
	return len(p), nil
}

// start runs the server on a free port and returns its URL. stop ends it and
// returns its exit code.
func start(tb testing.TB, args ...string) (url string, stop func() int) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out := &lineWriter{line: make(chan string, 1)}
	code := make(chan int, 1)
	var stderr bytes.Buffer
	go func() { code <- demoserver.Run(ctx, append([]string{"-addr", "127.0.0.1:0"}, args...), out, &stderr) }()
	stop = sync.OnceValue(func() int { cancel(); return <-code })
	tb.Cleanup(func() { stop() })
	select {
	case url = <-out.line:
	case c := <-code:
		code <- c // for stop
		tb.Fatalf("exit %d: %s", c, stderr.String())
	}
	return url, stop
}

func do(tb testing.TB, method, url string, body io.Reader, header ...string) *http.Response {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, url, body)
	require.NoError(tb, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(tb, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(tb, err)
	require.NoError(tb, resp.Body.Close())
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return resp
}

func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(b)
}

func TestTwoHundredAtOnceWithOneKeyTwentyPass(t *testing.T) {
	t.Parallel()
	url, stop := start(t, "-limit", "20", "-period", "1h")
	var mu sync.Mutex
	status := map[int]int{}
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			// A header that a client may forge changes nothing: its peer is not trusted.
			resp := do(t, http.MethodGet, url+"/hello", nil, "X-API-Key", "ann", "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i))
			mu.Lock()
			defer mu.Unlock()
			status[resp.StatusCode]++
			if resp.StatusCode == http.StatusTooManyRequests {
				require.Regexp(t, `^3[56]\d\d$`, resp.Header.Get("Retry-After"))
				require.Equal(t, "true", resp.Header.Get("X-Rate-Limited"))
				require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
				require.Equal(t, "no-store", resp.Header.Get("Cache-Control"))
			} else {
				require.Equal(t, "false", resp.Header.Get("X-Rate-Limited"))
			}
		})
	}
	wg.Wait()
	require.Equal(t, map[int]int{http.StatusOK: 20, http.StatusTooManyRequests: 180}, status)
	require.Equal(t, http.StatusOK, do(t, http.MethodGet, url+"/hello", nil, "X-API-Key", "bob").StatusCode, "another key is untouched")

	for i := range 25 { // without a key it is the client's IP, whatever a header says
		resp := do(t, http.MethodGet, url+"/hello", nil, "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i), "X-Real-Ip", "198.51.100.1")
		want := http.StatusOK
		if i >= 20 {
			want = http.StatusTooManyRequests
		}
		require.Equal(t, want, resp.StatusCode, "request %d", i+1)
	}

	require.Zero(t, stop())
}

func TestRetryAfterIsLongEnough(t *testing.T) {
	t.Parallel()
	url, _ := start(t, "-limit", "1", "-period", "1s")
	resp := do(t, http.MethodGet, url+"/hello", nil)
	for resp.StatusCode == http.StatusOK { // a period can end between two requests
		resp = do(t, http.MethodGet, url+"/hello", nil)
	}
	require.Equal(t, "1", resp.Header.Get("Retry-After"))
	time.Sleep(time.Second) // real: a real server told us to
	require.Equal(t, http.StatusOK, do(t, http.MethodGet, url+"/hello", nil).StatusCode)
}

func TestServersOnOneRedisShareTheirLimits(t *testing.T) {
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
				var passed atomic.Int64
				var wg sync.WaitGroup
				for i := range 60 {
					wg.Go(func() {
						if do(t, http.MethodGet, []string{a, b}[i%2]+"/hello", nil, "X-API-Key", "ann").StatusCode == http.StatusOK {
							passed.Add(1)
						}
					})
				}
				wg.Wait()
				require.EqualValues(t, 20, passed.Load())
				post := func(url string) string {
					return do(t, http.MethodPost, url+"/upload", strings.NewReader(strings.Repeat("x", 40<<10)), "X-API-Key", "ann").Header.Get("Ratelimit")
				}
				require.Contains(t, post(a), ";r=60")
				require.Regexp(t, ";r=[2-5][0-9];", post(b), "routes are shared, too") // and refilled meanwhile

				require.Zero(t, stopA())
				require.Zero(t, stopB())
				requireAlone(t, srv.Addr)
				c, _ := start(t, args...)
				require.Equal(t, http.StatusTooManyRequests, do(t, http.MethodGet, c+"/hello", nil, "X-API-Key", "ann").StatusCode, "a server that starts later finds what was taken")
				srv.Kill()
				require.Equal(t, http.StatusServiceUnavailable, do(t, http.MethodGet, c+"/hello", nil, "X-API-Key", "bob").StatusCode, "nobody counts")
				require.Equal(t, http.StatusOK, do(t, http.MethodGet, c+"/health", nil).StatusCode)
			})
		})
	}
}

// TestTheModeIsThatOfTheStore: coalesced decisions go together where there are many at a time, and
// strict ones never do.
func TestTheModeIsThatOfTheStore(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"strict", "coalesced"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			srv, err := redisserver.Start(t.TempDir())
			require.NoError(t, err)
			t.Cleanup(srv.Kill)
			url, stop := start(t, "-redis", srv.Addr, "-mode", mode)
			number := func(name string) int {
				t.Helper()
				found := regexp.MustCompile(`(?m)^` + name + `{.*} (\d+)$`).FindStringSubmatch(text(t, do(t, http.MethodGet, url+"/metrics", nil)))
				require.Len(t, found, 2, name)
				n, err := strconv.Atoi(found[1])
				require.NoError(t, err)
				return n
			}
			var loads, sent, trips int
			load := func() (decided bool) { // all of them: a busy machine can be too slow for a reply
				loads++
				var failed atomic.Bool
				var wg sync.WaitGroup
				for i := range 64 {
					wg.Go(func() {
						if do(t, http.MethodGet, url+"/hello", nil, "X-API-Key", fmt.Sprint(loads, i)).StatusCode != http.StatusOK {
							failed.Store(true)
						}
					})
				}
				wg.Wait()
				sent, trips = number("resilience_ratelimitstore_sent_operations_total"), number("resilience_ratelimitstore_round_trip_seconds_count")
				return !failed.Load()
			}
			if mode == "strict" {
				for good := 0; good < 5; {
					before := [2]int{sent, trips}
					if load() {
						require.GreaterOrEqual(t, trips-before[1], sent-before[0], "each has a round trip of its own")
						good++
					}
				}
			} else {
				require.Eventually(t, func() bool { load(); return sent > trips }, time.Minute, time.Millisecond)
			}
			require.Zero(t, stop())
		})
	}
}

// requireAlone asks a Redis until it has no connection but that of the asking.
func requireAlone(tb testing.TB, addr string) {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1})
	defer func() { require.NoError(tb, client.Close()) }()
	require.Eventually(tb, func() bool { // it may see the end of another one a little later
		list, err := client.ClientList(tb.Context()).Result()
		return err == nil && strings.Count(list, "\n") == 1
	}, time.Minute, time.Millisecond, "connections are left")
}

func TestAlignedPeriodsBeginWithTheClock(t *testing.T) {
	t.Parallel()
	url, _ := start(t, "-aligned", "-period", "43800h")
	resp := do(t, http.MethodGet, url+"/hello", nil)
	_, left, _ := strings.Cut(resp.Header.Get("Ratelimit"), ";t=")
	seconds, err := strconv.ParseInt(left, 10, 64)
	require.NoError(t, err, "%v", resp.Header)
	const period = 43_800 * 3600
	require.InDelta(t, period-time.Now().Unix()%period, seconds, 60)
}

func TestSearchHasABucketOfItsOwn(t *testing.T) {
	t.Parallel()
	url, _ := start(t, "-limit", "1", "-period", "1h")
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			resp := do(t, http.MethodGet, url+"/search", nil, "X-API-Key", "k")
			if resp.StatusCode == http.StatusOK {
				allowed.Add(1)
				return
			}
			require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
			require.Equal(t, "1", resp.Header.Get("Retry-After"))
		})
	}
	wg.Wait()
	require.GreaterOrEqual(t, allowed.Load(), int64(5))
	require.Less(t, allowed.Load(), int64(100))
	require.Equal(t, http.StatusOK, do(t, http.MethodGet, url+"/hello", nil, "X-API-Key", "k").StatusCode, "the global limit was not touched")
	require.Equal(t, http.StatusTooManyRequests, do(t, http.MethodGet, url+"/hello", nil, "X-API-Key", "k").StatusCode)
}

func TestUploadCostsByTheKiB(t *testing.T) {
	t.Parallel()
	url, _ := start(t)
	post := func(key string, n int) *http.Response {
		return do(t, http.MethodPost, url+"/upload", strings.NewReader(strings.Repeat("x", n)), "X-API-Key", key)
	}
	resp := post("large", 101<<10)
	require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	require.Empty(t, resp.Header.Get("Retry-After"), "waiting does not help")
	require.Contains(t, resp.Header.Get("Ratelimit"), ";r=100", "nothing was consumed")
	resp = post("k", 40<<10+1)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Contains(t, resp.Header.Get("Ratelimit"), ";r=59", "41 started KiB")
	require.Equal(t, "40961 bytes\n", text(t, resp))
	require.Contains(t, post("small", 0).Header.Get("Ratelimit"), ";r=99", "at least 1")
	resp = post("k", 99<<10)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.NotEmpty(t, resp.Header.Get("Retry-After"))

	resp = do(t, http.MethodPost, url+"/upload", io.MultiReader(strings.NewReader("chunked")), "X-API-Key", "k")
	require.Equal(t, http.StatusLengthRequired, resp.StatusCode, "chunked")

	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	_, err = io.WriteString(conn, "POST /upload HTTP/1.1\r\nHost: demo\r\nX-API-Key: k\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.Contains(t, string(answer), "HTTP/1.1 411 Length Required", "no header and no body, as curl -X POST sends it")
}

func TestUnlimitedRoutes(t *testing.T) {
	t.Parallel()
	url, _ := start(t, "-limit", "1", "-period", "1h")
	for range 5 {
		for _, path := range []string{"/health", "/unstable", "/slow?d=1ms", "/metrics", "/flaky?id=u&fail=0"} {
			resp := do(t, http.MethodGet, url+path, nil)
			require.Equal(t, http.StatusOK, resp.StatusCode, path)
			require.Empty(t, resp.Header.Values("X-Rate-Limited"), path)
		}
	}
	require.Equal(t, http.StatusOK, do(t, http.MethodGet, url+"/hello", nil).StatusCode)
	require.Equal(t, http.StatusTooManyRequests, do(t, http.MethodGet, url+"/hello", nil).StatusCode)
	require.Contains(t, text(t, do(t, http.MethodGet, url+"/metrics", nil)), `resilience_ratelimit_requests_total{name="demo",result="throttled"} 1`)
}

func TestTrouble(t *testing.T) {
	t.Parallel()
	url, _ := start(t)
	for i := 1; i <= 4; i++ {
		resp := do(t, http.MethodGet, url+"/flaky?id=a&fail=2", nil)
		if i <= 2 {
			require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
			continue
		}
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.JSONEq(t, fmt.Sprintf(`{"attempts":%d}`, i), text(t, resp))
	}
	require.Equal(t, http.StatusServiceUnavailable, do(t, http.MethodGet, url+"/flaky?id=b&fail=1", nil).StatusCode, "each id has a count of its own")
	for _, bad := range []string{"/flaky", "/flaky?id=x&fail=-1", "/flaky?id=x&fail=many", "/flaky?fail=1", "/slow", "/slow?d=1", "/slow?d=31s", "/slow?d=-1s"} {
		resp := do(t, http.MethodGet, url+bad, nil)
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, bad)
		require.Contains(t, text(t, resp), "want ", bad)
	}
	require.Equal(t, http.StatusNoContent, do(t, http.MethodPost, url+"/unstable/down", nil).StatusCode)
	require.Equal(t, http.StatusInternalServerError, do(t, http.MethodGet, url+"/unstable", nil).StatusCode)
	require.Equal(t, http.StatusNoContent, do(t, http.MethodPost, url+"/unstable/up", nil).StatusCode)
	require.Equal(t, http.StatusOK, do(t, http.MethodGet, url+"/unstable", nil).StatusCode)
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-colour red":              "flag provided but not defined: -colour",
		"-limit many":              `invalid value "many" for flag -limit`,
		"-limit 0":                 "demo-server: -limit 0 -period 10s: ratelimit.Config.Limit = 0/10s: must have",
		"-period -1s":              "must have a period",
		"-limit -3 -period 0s":     "Limit = -3/0s: must have",
		"extra":                    `unexpected argument "extra"`,
		"-mode coalesced":          "demo-server: -mode coalesced: is for -redis HOST:PORT",
		"-redis h:1 -mode lazy":    `invalid value "lazy" for flag -mode: must be strict, coalesced`,
		"-redis localhost":         `invalid value "localhost" for flag -redis: must be HOST:PORT, such as 127.0.0.1:6379`,
		"-redis 127.0.0.1:1":       "demo-server: -redis 127.0.0.1:1: redisstore: the server cannot be reached: dial tcp 127.0.0.1:1",
		"-addr 127.0.0.1:notaport": "",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			code := demoserver.Run(t.Context(), strings.Fields(args), io.Discard, &stderr)
			require.NotZero(t, code)
			require.Contains(t, stderr.String(), want)
			require.NotEmpty(t, stderr.String())
		})
	}
	require.Zero(t, demoserver.Run(t.Context(), []string{"-h"}, io.Discard, io.Discard))
}

// TestSignalsEndItGracefully runs the program as its users do.
func TestSignalsEndItGracefully(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "demo-server")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		cmd := exec.CommandContext(t.Context(), binary, "-addr", "127.0.0.1:0")
		stdout := &lineWriter{line: make(chan string, 1)}
		cmd.Stdout, cmd.Stderr = stdout, os.Stderr
		require.NoError(t, cmd.Start())
		url := <-stdout.line
		dial := func() (net.Conn, error) {
			return (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
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
		require.Equal(t, "4 bytes\n", text(t, resp), "what is in flight is finished")
		require.NoError(t, conn.Close())
		require.NoError(t, cmd.Wait(), "exit code 0")
		require.Equal(t, url+"\n", stdout.buf.String(), "one line, and nothing else")
	}
}
