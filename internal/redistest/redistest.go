// Package redistest has what tests with a redis-server share: servers that end with a test, and a network between them and their
// clients that fails.
package redistest

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/redisserver"
)

// Start starts a redis-server on a port of its own, which ends with the test.
func Start(tb testing.TB, args ...string) *redisserver.Server {
	tb.Helper()
	s, err := redisserver.Start(tb.TempDir(), args...)
	require.NoError(tb, err)
	tb.Cleanup(s.Kill)
	return s
}

// StartCluster starts three servers that share the slots, which end with the test.
func StartCluster(tb testing.TB, args ...string) redisserver.Cluster {
	tb.Helper()
	c, err := redisserver.StartCluster(tb.TempDir(), args...)
	require.NoError(tb, err)
	tb.Cleanup(c.Kill)
	return c
}

// ForExample starts a redis-server, and returns its address and the function that ends it.
func ForExample() (addr string, stop func()) {
	dir := core.Must(os.MkdirTemp("", "redistest"))
	s := core.Must(redisserver.Start(dir))
	return s.Addr, func() {
		s.Kill()
		_ = os.RemoveAll(dir)
	}
}

var used = regexp.MustCompile(`used_cpu_(?:sys|user):([\d.]+)`)

// CPU returns the CPU time that a server has used, from its reply to INFO cpu.
func CPU(tb testing.TB, info string) time.Duration {
	tb.Helper()
	var sum float64
	for _, field := range used.FindAllStringSubmatch(info, -1) {
		seconds, err := strconv.ParseFloat(field[1], 64)
		require.NoError(tb, err)
		sum += seconds
	}
	require.Positive(tb, sum, info)
	return time.Duration(sum * 1e9)
}

// A Relay is one address for a primary and its replica. Connections to it lead to the primary.
type Relay struct {
	*Proxy

	Primary, Replica *redisserver.Server
}

// StartRelay starts both servers and the relay, which end with the test.
func StartRelay(tb testing.TB) *Relay {
	tb.Helper()
	primary := Start(tb, "--repl-diskless-sync-delay", "0")
	replica := Start(tb, "--replicaof", strings.ReplaceAll(primary.Addr, ":", " "))
	require.NoError(tb, replica.Await("info replication", "master_link_status:up"))
	require.NoError(tb, primary.Await("info replication", "state=online"))
	return &Relay{StartProxy(tb, primary.Addr), primary, replica}
}

// Swap makes the replica the primary, when it has all that was written, and points the relay to it. The
// former primary gets commands, with the address of the new one for %s. Its connections stay open, unless
// they are cut.
func (r *Relay) Swap(tb testing.TB, cut bool, commands ...string) {
	tb.Helper()
	do := func(s *redisserver.Server, command string) {
		tb.Helper()
		_, err := s.Do(command)
		require.NoError(tb, err)
	}
	do(r.Primary, "set replicated 1")
	require.NoError(tb, r.Replica.Await("get replicated", "1"))
	do(r.Replica, "replicaof no one")
	for _, command := range commands {
		do(r.Primary, strings.ReplaceAll(command, "%s", strings.ReplaceAll(r.Replica.Addr, ":", " ")))
	}
	r.Point(r.Replica.Addr)
	if cut {
		r.Cut()
		r.Resume()
	}
}
