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
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/program"
	"github.com/gresil/gresil/internal/redisserver"
)

// TestMain is the demo itself where the arguments are not those of a test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
	}
	logging.Disable() // go-redis would log each connection to a server that a test has stopped
	os.Exit(m.Run())
}

// reach runs the demo, and again if the machine was too slow for the load, so that the run shows nothing.
func reach(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	for range 5 {
		var out, errs bytes.Buffer
		code = run(t.Context(), append(args, "-limit", "20"), &out, &errs)
		if stdout, stderr = out.String(), errs.String(); !strings.Contains(stdout, "which shows nothing") {
			break
		}
	}
	return code, stdout, stderr
}

func TestServersOnOneRedisHoldTheLimitTogether(t *testing.T) {
	t.Parallel()
	code, out, stderr := reach(t, "-duration", "2s")
	require.Zero(t, code, out+stderr)
	require.Regexp(t, `^redis: 127.0.0.1:\d+, strict
server 1: http://127.0.0.1:\d+
server 2: http://127.0.0.1:\d+
server 3: http://127.0.0.1:\d+
limit: 20 a second for all together; 24 clients ask each server in turn

  SECOND     SERVER 1   SERVER 2   SERVER 3   TOGETHER
(  \d\d:\d\d:\d\d +\d+ +\d+ +\d+ +\d+ of 20
){2}
\d+ passed, \d+ were refused, \d+ failed.*
ok: no second was above the limit of 20, [12] of 2 reached it
$`, out)
	require.Contains(t, stderr, "1s of 2s: ")
	require.NotContains(t, stderr, "\r", "there is no bar but on a terminal")
}

func TestOnAGivenRedis(t *testing.T) {
	t.Parallel()
	srv, err := redisserver.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(srv.Kill)
	code, out, stderr := reach(t, "-redis", srv.Addr, "-mode", "coalesced", "-servers", "2", "-duration", "3s")
	require.Zero(t, code, out+stderr)
	require.Contains(t, out, "redis: "+srv.Addr+", coalesced\n")
	require.Contains(t, out, "20 of 20\n")
	client := redis.NewClient(&redis.Options{Addr: srv.Addr})
	defer func() { require.NoError(t, client.Close()) }()
	info, err := client.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err, "it is not ended with the demo")
	require.Contains(t, info, "cmdstat_evalsha", "and it was used")
}

func TestServersByThemselvesFail(t *testing.T) {
	t.Parallel()
	code, out, stderr := reach(t, "-shared=false", "-duration", "2s")
	require.Equal(t, 1, code, out+stderr)
	require.Contains(t, out, "limit: 20 a second for each server by itself;")
	require.Regexp(t, `\d+ +\d+ +\d+ +\d+ of 20 ABOVE\n`, out)
	// 40 on a quick machine; what passes at a turn of seconds is told of the later one.
	require.Regexp(t, `\nFAILED: [12] of 2 seconds were above the limit of 20, by up to [2-9]\d\n$`, out)
}

func TestALimitThatIsNotReachedShowsNothing(t *testing.T) {
	t.Parallel()
	var out, stderr bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"-shared=false", "-duration", "1s", "-limit", "1000000"}, &out, &stderr), "%s%s", &out, &stderr)
	require.Contains(t, out.String(), "\nFAILED: no second reached the limit of 1000000, which shows nothing")
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-colour red":                 "flag provided but not defined: -colour",
		"extra":                       `cluster-demo: unexpected argument "extra": there are only flags`,
		"-duration 900ms":             "cluster-demo: -duration 900ms: must be 1s to 10m0s",
		"-duration 1h":                "cluster-demo: -duration 1h0m0s: must be 1s to 10m0s",
		"-limit 0":                    "cluster-demo: -limit 0: must be at least 1",
		"-servers 0":                  "cluster-demo: -servers 0: must be 1 to 32",
		"-mode lazy":                  "cluster-demo: -mode lazy: must be strict or coalesced",
		"-redis localhost":            `cluster-demo: -redis "localhost": must be HOST:PORT, as 127.0.0.1:6379`,
		"-shared=false -mode strict":  "cluster-demo: -mode strict: there is no Redis with -shared=false",
		"-redis 10.0.0.1:1 -shared=0": "cluster-demo: -redis 10.0.0.1:1: there is no Redis with -shared=false",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			require.Equal(t, 2, run(t.Context(), strings.Fields(args), io.Discard, &stderr))
			require.Contains(t, stderr.String(), want)
		})
	}
	require.Zero(t, run(t.Context(), []string{"-h"}, io.Discard, io.Discard))
}

func TestNoRedisAtAll(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	require.Equal(t, 1, run(t.Context(), []string{"-redis", "127.0.0.1:1"}, io.Discard, &stderr))
	require.Regexp(t, `^cluster-demo: server 1 has ended: demo-server: -redis 127.0.0.1:1: redisstore: the server cannot be reached: .*refused\n$`, stderr.String())

	cmd := demo(t)
	cmd.Env = []string{"PATH=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Regexp(t, `^cluster-demo: redis-server is not installed: install it, or give the -redis HOST:PORT`, string(out))
}

// demo returns the demo as a process of its own.
func demo(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), os.Args[0], append([]string{"-servers=2"}, args...)...)
}

// TestNoProcessIsLeft: however the demo ends, the connections to what it has started end with it.
func TestNoProcessIsLeft(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{os.Interrupt, os.Kill} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			cmd := demo(t, "-duration", "10s", "-limit", "5")
			progress := &program.FirstLine{Line: make(chan string, 1)}
			cmd.Stderr = progress
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(stdout)
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
			require.Contains(t, <-progress.Line, "1s of 10s: ")
			require.NoError(t, cmd.Process.Signal(sig))
			var rest string
			for lines.Scan() {
				rest += lines.Text() + "\n"
			}
			err = cmd.Wait()
			for _, conn := range conns {
				requireEnd(t, conn)
			}
			if sig == os.Kill {
				return
			}
			require.NoError(t, err, "exit code 0")
			require.Regexp(t, `TOGETHER\n(  .* of 5\n)+\n.* failed.*\ninterrupted\nok: no second was above the limit of 5, `, rest)
		})
	}
}

func TestAChildThatEndsIsMissed(t *testing.T) {
	t.Parallel()
	var cs program.Children
	t.Cleanup(cs.Stop)
	addr, err := cs.Start(t.Context(), "redis", "redis")
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	cs.Watch(ctx, cancel)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	require.NoError(t, err)
	require.NoError(t, ctx.Err())
	cs.Stop()
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

func TestWhatFailsIsNotCountedAsPassed(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	c, err := newClock(t.Context(), "")
	require.NoError(t, err)
	l := newLoad(c, []string{srv.URL}, time.Second)
	l.run(t.Context(), io.Discard)
	require.Empty(t, l.grants)
	require.Positive(t, l.failed.Load())
	require.Equal(t, ", the first: server 1: 404 Not Found", l.problem())
	_, err = judge(seconds(l.grants, l.from(), l.to(), 1, 5), 5)
	require.ErrorContains(t, err, "no second reached the limit of 5")
}
