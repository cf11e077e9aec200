package redisserver

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// PrimaryName is the name of the primary of a [Failover] in its Sentinel.
const PrimaryName = "primary"

// A Failover is a primary, a replica of it, and a Sentinel that makes the replica the primary on
// [Failover.Promote]. It does not do that by itself: a busy machine can stop a primary for as long as an
// outage that it would find soon enough for a test.
type Failover struct{ Primary, Replica, Sentinel *Server }

// StartFailover starts the three in a directory, and waits until the replica has all and the Sentinel
// knows it.
func StartFailover(dir string) (f *Failover, err error) {
	f = &Failover{}
	defer func() {
		if err != nil {
			f.Kill()
		}
	}()
	if f.Primary, err = Start(dir, "--repl-diskless-sync-delay", "0"); err != nil {
		return f, err
	}
	host, port, _ := net.SplitHostPort(f.Primary.Addr)
	if f.Replica, err = Start(dir, "--replicaof", host, port); err != nil {
		return f, err
	}
	if err := f.Replica.await("info replication", "master_link_status:up"); err != nil {
		return f, err
	}
	if err := f.Primary.await("info replication", "state=online"); err != nil {
		return f, err
	}
	f.Sentinel, err = again(func() (*Server, error) {
		own, err := FreePort()
		if err != nil {
			return nil, err
		}
		config := filepath.Join(dir, "sentinel.conf") // it is written to
		text := fmt.Sprintf("port %[1]s\nbind 127.0.0.1\ndir %[2]s\nsentinel monitor %[3]s %[4]s %[5]s 1\n"+
			"sentinel down-after-milliseconds %[3]s 600000\nsentinel failover-timeout %[3]s 3000\n", own, dir, PrimaryName, host, port)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return nil, err
		}
		s := &Server{Addr: net.JoinHostPort("127.0.0.1", own), args: []string{config, "--sentinel"}}
		return s, s.Restart()
	})
	if err != nil {
		return f, err
	}
	return f, f.Sentinel.await("info sentinel", "status=ok,address="+f.Primary.Addr+",slaves=1")
}

// Promote makes the replica the primary, as if the primary were unavailable. It returns before the replica
// is the primary.
func (f *Failover) Promote() error {
	return f.Sentinel.await("sentinel failover "+PrimaryName, "OK")
}

// Kill ends all at once.
func (f *Failover) Kill() {
	for _, s := range []*Server{f.Sentinel, f.Replica, f.Primary} {
		if s != nil {
			s.Kill()
		}
	}
}

// A Cluster is primaries that share the slots, each with as many as the others, in their order.
type Cluster []*Server

// StartCluster starts a Cluster of n servers in a directory, each with more arguments than it needs,
// and waits until every one knows that it is complete.
func StartCluster(dir string, n int, args ...string) (c Cluster, err error) {
	defer func() {
		if err != nil {
			c.Kill()
		}
	}()
	var meet string
	for i := range n {
		var bus string
		s, err := again(func() (s *Server, err error) {
			if bus, err = FreePort(); err != nil {
				return nil, err
			}
			own, err := os.MkdirTemp(dir, "node")
			if err != nil {
				return nil, err
			}
			return Start(own, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port", bus}, args...)...)
		})
		if err != nil {
			return c, err
		}
		c = append(c, s)
		commands := []string{
			fmt.Sprintf("cluster addslotsrange %d %d", i*16384/n, (i+1)*16384/n-1),
			"cluster set-config-epoch " + strconv.Itoa(i+1),
		}
		if host, port, _ := net.SplitHostPort(s.Addr); i == 0 {
			meet = fmt.Sprintf("cluster meet %s %s %s", host, port, bus)
		} else {
			commands = append(commands, meet)
		}
		for _, command := range commands {
			if _, err := s.Do(command); err != nil {
				return c, err
			}
		}
	}
	for _, s := range c {
		if err := s.await("cluster info", "cluster_state:ok", "cluster_slots_assigned:16384", "cluster_known_nodes:"+strconv.Itoa(n)); err != nil {
			return c, err
		}
	}
	return c, nil
}

// Addrs are where its servers listen.
func (c Cluster) Addrs() (addrs []string) {
	for _, s := range c {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// Kill ends all at once.
func (c Cluster) Kill() {
	for _, s := range c {
		s.Kill()
	}
}
