package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/examples/internal/demotest"
	"github.com/gresil/gresil/internal/redisserver"
)

// reach runs the demo, and again if the machine was too slow for the load, so that the run shows nothing.
func reach(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	for range 5 {
		var out, errs bytes.Buffer
		code = runCluster(t.Context(), append(args, "-limit", "20", "-duration", "2s"), &out, &errs)
		if stdout, stderr = out.String(), errs.String(); !strings.Contains(stdout, "which shows nothing") {
			break
		}
	}
	return code, stdout, stderr
}

func TestServersHoldLimitTogether(t *testing.T) {
	t.Parallel()
	code, out, stderr := reach(t)
	require.Zero(t, code, out+stderr)
	require.Regexp(t, `^20 requests may pass in any second, through 3 servers together. .*

 +gresil +naive \(control\) +
(server_[123] +\d+ +\d+ +Requests that this server let through.
){3}refused +\d+ +\d+ .*
failed +0 +0 .*
most_sliding +(1[6-9]|20) +[2-6]\d .*
ok: no second had more than the limit
the control broke the limit, as expected: \d\d passed in a second, the limit is 20
$`, out)
	require.Regexp(t, `^redis: 127.0.0.1:\d+, strict
(server \d: http://127.0.0.1:\d+\n){3}1s: \d+ passed, \d+ were refused, 1s left\n`, stderr)
}

func TestOnGivenRedis(t *testing.T) {
	t.Parallel()
	srv, err := redisserver.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(srv.Kill)
	code, out, stderr := reach(t, "-redis", srv.Addr, "-mode", "coalesced", "-servers", "2")
	require.Zero(t, code, out+stderr)
	require.Contains(t, stderr, "redis: "+srv.Addr+", coalesced\n")
	client := redis.NewClient(&redis.Options{Addr: srv.Addr})
	defer func() { require.NoError(t, client.Close()) }()
	info, err := client.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err, "it is not ended with the demo")
	require.Contains(t, info, "cmdstat_evalsha", "and it was used")
}

// A limit that is not reached shows nothing, and neither does a server that fails.
func TestNoProof(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.Equal(t, 1, runCluster(t.Context(), []string{"-redis", demotest.Unreachable}, &out, io.Discard))
	require.Regexp(t, `FAILED: server 1 has ended: demo-server: -redis 127.0.0.1:1: redisstore: the server cannot be reached: .*refused;`, out.String())

	cmd := process(t)
	cmd.Env = []string{"PATH=" + t.TempDir()}
	text, err := cmd.Output()
	require.Error(t, err)
	require.Contains(t, string(text), "FAILED: redis-server is not installed: install it, or give the -redis HOST:PORT")

	ctx, cancel := context.WithCancel(t.Context())
	var requests atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > clientsEach { // so that a client has got its first answer
			cancel()
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(srv.Close)
	l := &load{cluster: cluster{duration: time.Minute}, urls: []string{srv.URL}, passed: []int{0}}
	l.run(ctx, demo.NewScreen(io.Discard))
	require.Zero(t, l.most())
	require.Positive(t, l.failed)
	require.EqualError(t, l.first, "server 1: 404 Not Found")
}

func TestFullestSecond(t *testing.T) {
	t.Parallel()
	l := &load{}
	for _, ms := range [][2]int{{900, 950}, {0, 2}, {1, 1001}, {998, 1100}, {999, 1000}, {1901, 1902}} {
		l.grants = append(l.grants, grant{time.Duration(ms[0]) * time.Millisecond, time.Duration(ms[1]) * time.Millisecond})
	}
	require.Equal(t, 3, l.most(), "from 900 to 1899, and not from 0 or 1, since some may have been decided later")
}

// process returns the demo as a process of its own.
func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), os.Args[0], append([]string{"cluster", "-servers=2"}, args...)...)
}

// However the demo ends, the connections to what it has started end with it.
func TestNoProcessIsLeft(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{os.Interrupt, os.Kill} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			cmd := process(t, "-duration", "10s", "-limit", "5")
			var stdout strings.Builder
			cmd.Stdout = &stdout
			stderr, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(stderr)
			var conns []net.Conn
			for len(conns) < 3 && lines.Scan() {
				addr := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(lines.Text())
				conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
				require.NoError(t, err, lines.Text())
				hello := "GET /health HTTP/1.1\r\nHost: demo\r\n\r\n"
				if len(conns) == 0 {
					hello = "PING\r\n"
				}
				_, err = io.WriteString(conn, hello)
				require.NoError(t, err)
				conns = append(conns, conn)
			}
			require.Len(t, conns, 3, "Redis and two servers")
			require.True(t, lines.Scan())
			require.Contains(t, lines.Text(), "1s: ")
			require.NoError(t, cmd.Process.Signal(sig))
			_, _ = io.Copy(io.Discard, stderr)
			require.Error(t, cmd.Wait())
			for _, conn := range conns {
				requireEnd(t, conn)
			}
			if sig == os.Interrupt {
				require.Contains(t, stdout.String(), "\nFAILED: interrupted")
			}
		})
	}
}

func TestServerThatEndsIsMissed(t *testing.T) {
	t.Parallel()
	var servers demo.Servers
	t.Cleanup(servers.Stop)
	addr, err := servers.StartRedis(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	servers.Watch(ctx, cancel)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	require.NoError(t, err)
	require.NoError(t, ctx.Err())
	servers.Stop()
	<-ctx.Done()
	require.ErrorContains(t, context.Cause(ctx), "redis has ended")
	requireEnd(t, conn)
}

// requireEnd waits for the end of a connection.
func requireEnd(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err := io.Copy(io.Discard, conn)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, conn.Close())
}
