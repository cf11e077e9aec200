package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/examples/internal/demotest"
	"github.com/gresil/gresil/internal/redisserver"
)

func TestServersHoldLimitTogether(t *testing.T) {
	t.Parallel()
	var out, stderr bytes.Buffer
	require.Zero(t, runCluster(t.Context(), []string{"-limit", "21"}, &out, &stderr), "%s%s", &out, &stderr)
	require.Regexp(t, `^redis: 127.0.0.1:\d+

shared: servers with one Redis hold a limit together

  SENT +CAME BACK +WHY
(  GET /hello × 21 to http://127.0.0.1:\d+ +\d+ × 200 hello .*
){3}
ok

control: servers without it have a limit each

  SENT .*
(  GET /hello × 21 to http://127.0.0.1:\d+ +21 × 200 hello .*
){3}
ok
$`, out.String())
}

func TestOnGivenRedis(t *testing.T) {
	t.Parallel()
	srv, err := redisserver.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(srv.Kill)
	var out bytes.Buffer
	args := []string{"-redis", srv.Addr, "-mode", "coalesced", "-servers", "2", "-limit", "20"}
	require.Zero(t, runCluster(t.Context(), args, &out, io.Discard), &out)
	client := redis.NewClient(&redis.Options{Addr: srv.Addr})
	defer func() { require.NoError(t, client.Close()) }()
	info, err := client.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err, "it is not ended with the demo")
	require.Contains(t, info, "cmdstat_evalsha", "and it was used")
}

// Servers that let too much or too little through, or that do not start, fail the demo.
func TestNoProof(t *testing.T) {
	t.Parallel()
	ctx, lost := context.WithCancelCause(t.Context())
	c := cluster{started: demo.Servers{Lost: lost}, limit: 5, number: 2}
	t.Cleanup(c.started.Stop)
	s := &stage{RoundTripper: &http.Transport{DisableKeepAlives: true}}
	require.Equal(t, 10, c.ask(ctx, s), "without Redis")
	require.Empty(t, s.wrong)
	require.Zero(t, c.ask(ctx, s, "-redis", demotest.Unreachable))
	require.Len(t, s.wrong, 1)
	require.Regexp(t, "^error of a start: got server 1 has ended: demo-server: -redis 127.0.0.1:1: redisstore: .* refused", s.wrong[0])

	var out, stderr bytes.Buffer
	require.Equal(t, 1, runCluster(t.Context(), []string{"-redis", demotest.Unreachable}, &out, &stderr))
	require.Equal(t, "demo-client: 2 of 2 scenarios failed\n", stderr.String())
	cmd := exec.CommandContext(t.Context(), os.Args[0], "cluster")
	cmd.Env = []string{"PATH=" + t.TempDir()}
	text, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(text), "executable file not found in $PATH: install redis-server, or give the -redis HOST:PORT")
}

// However the parent of a Redis ends, its input ends.
func TestRedisEndsWithInput(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "child", "redis")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	addr := bufio.NewScanner(out)
	require.True(t, addr.Scan())
	conn := dial(t, addr.Text())
	require.NoError(t, cmd.Process.Signal(os.Interrupt), "it is for the parent")
	_, err = io.WriteString(conn, "PING\r\n")
	require.NoError(t, err)
	pong := make([]byte, 5)
	_, err = io.ReadFull(conn, pong)
	require.NoError(t, err)
	require.NoError(t, in.Close())
	requireEnd(t, conn)
	require.NoError(t, cmd.Wait())
}

func TestServerThatEndsIsMissed(t *testing.T) {
	t.Parallel()
	ctx, lost := context.WithCancelCause(t.Context())
	servers := demo.Servers{Lost: lost}
	t.Cleanup(servers.Stop)
	addr, err := servers.StartRedis(ctx)
	require.NoError(t, err)
	conn := dial(t, addr)
	require.NoError(t, ctx.Err())
	servers.Stop()
	<-ctx.Done()
	require.ErrorContains(t, context.Cause(ctx), "redis has ended")
	requireEnd(t, conn)
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	return conn
}

// requireEnd waits for the end of a connection.
func requireEnd(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err := io.Copy(io.Discard, conn)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, conn.Close())
}
