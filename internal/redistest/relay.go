package redistest

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/internal/tcpproxy"
)

// A Relay is one address for a primary and its replica. Connections to it lead to the primary.
type Relay struct {
	*tcpproxy.Proxy

	Primary, Replica *redisserver.Server
}

// StartRelay starts both servers and the relay, which end with the test.
func StartRelay(tb testing.TB) *Relay {
	tb.Helper()
	r := &Relay{Primary: Start(tb, "--repl-diskless-sync-delay", "0")}
	host, port, _ := net.SplitHostPort(r.Primary.Addr)
	r.Replica = Start(tb, "--replicaof", host, port)
	r.await(tb, "info replication", "master_link_status:up")
	p, err := tcpproxy.Start(r.Primary.Addr)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	r.Proxy = p
	return r
}

// await waits until the reply of the replica has a text.
func (r *Relay) await(tb testing.TB, command, text string) {
	tb.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		got, err := r.Replica.Do(command)
		if err == nil && strings.Contains(got, text) {
			return
		}
		if time.Now().After(end) {
			tb.Fatalf("%s: got %q, %v, want %q", command, got, err, text)
		}
	}
}

// Swap makes the replica the primary, when it has all that was written, and points the relay to it. The
// former primary gets commands, with the address of the new one for %s. Its connections stay open, unless
// they are cut.
func (r *Relay) Swap(tb testing.TB, cut bool, commands ...string) {
	tb.Helper()
	do := func(s *redisserver.Server, command string) {
		tb.Helper()
		if _, err := s.Do(command); err != nil {
			tb.Fatal(err)
		}
	}
	do(r.Primary, "set replicated 1")
	r.await(tb, "get replicated", "1")
	do(r.Replica, "replicaof no one")
	for _, command := range commands {
		do(r.Primary, strings.ReplaceAll(command, "%s", strings.Replace(r.Replica.Addr, ":", " ", 1)))
	}
	r.Point(r.Replica.Addr)
	if cut {
		r.Cut()
		r.Resume()
	}
}
