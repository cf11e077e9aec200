// Package redisserver runs redis-server for tests and demos: a process of its own on a free port, that
// writes nothing to disk.
package redisserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// patience is how long servers may take until they are ready.
const patience = time.Minute

// A Server is a redis-server. It is for one goroutine.
type Server struct {
	Addr   string // HOST:PORT
	args   []string
	cmd    *exec.Cmd
	logged chan struct{} // closed at the end of its output
}

// Start starts a server in a directory, with more arguments than it needs. A configuration file comes first of these. Kill ends it.
func Start(dir string, args ...string) (s *Server, err error) {
	first := 0
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		first = 1
	}
	for range 5 { // another process might have taken its port
		var port string
		if port, err = freePort(); err != nil {
			return nil, err
		}
		own := []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}
		s = &Server{Addr: net.JoinHostPort("127.0.0.1", port), args: slices.Concat(args[:first], own, args[first:])}
		if err = s.Restart(); err == nil {
			break
		}
	}
	return s, err
}

// firstPort is another one in each process; ports counts those that this one has tried.
//
//nolint:gochecknoglobals // ports are those of the process
var (
	firstPort = rand.Uint32() //nolint:gosec // no secret
	ports     atomic.Uint32
)

// freePort returns a port without a listener. It is below those that the kernel gives to others, and not
// soon the same again, so that it stays free while a server that was killed is restarted.
func freePort() (port string, err error) {
	var lc net.ListenConfig
	for range 100 {
		port = strconv.Itoa(10_000 + int((firstPort+ports.Add(1))%20_000))
		var l net.Listener
		if l, err = lc.Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", port)); err == nil {
			return port, l.Close()
		}
	}
	return "", err
}

// Restart starts the server again after Kill, and waits until it is ready.
func (s *Server) Restart() error {
	cmd := exec.CommandContext(context.Background(), "redis-server", s.args...) //nolint:gosec // the arguments of our own tests and demos
	log, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.logged = cmd, make(chan struct{})
	var last string
	for r := bufio.NewReader(log); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			close(s.logged)
			s.Kill()
			return fmt.Errorf("redisserver: redis-server on %s ended: %s", s.Addr, last)
		}
		if last = strings.TrimSpace(line); strings.Contains(line, "Ready to accept") || strings.Contains(line, "+monitor") { // of a Sentinel
			go func() {
				defer close(s.logged)
				_, _ = io.Copy(io.Discard, r)
			}()
			return nil
		}
	}
}

// Kill ends the server at once, as a crash would.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		<-s.logged
		_ = s.cmd.Wait() // the error says that it was killed
		s.cmd = nil
	}
}

// Do sends one command, and returns the reply as text: that of many parts has one in a line. A reply that is an error is one.
func (s *Server) Do(words ...string) (text string, err error) {
	command := strings.Join(words, " ")
	d := net.Dialer{Deadline: time.Now().Add(patience)}
	conn, err := d.DialContext(context.Background(), "tcp", s.Addr)
	if err == nil {
		_ = conn.SetDeadline(d.Deadline)
		_, _ = io.WriteString(conn, command+"\r\n") // an inline command; if it does not arrive, nor does a reply
		text, err = reply(bufio.NewReader(conn))
		_ = conn.Close()
	}
	if err != nil {
		return "", fmt.Errorf("redisserver: %s on %s: %w", command, s.Addr, err)
	}
	return strings.TrimSpace(text), nil
}

// reply reads a reply of the Redis protocol.
func reply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimSpace(line[1:])
	switch kind {
	case '-':
		return "", errors.New(text)
	case '+', ':':
		return text, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return "", err
	}
	if kind == '$' {
		bulk := make([]byte, n+len("\r\n"))
		_, err := io.ReadFull(r, bulk)
		return string(bulk[:n]), err
	}
	parts := make([]string, n)
	for i := range parts {
		if parts[i], err = reply(r); err != nil {
			return "", err
		}
	}
	return strings.Join(parts, "\n"), nil
}

// Await asks the server until the reply has all of the texts.
func (s *Server) Await(command string, texts ...string) error {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		got, err := s.Do(command)
		missing := func(text string) bool { return !strings.Contains(got, text) }
		if err == nil && !slices.ContainsFunc(texts, missing) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("redisserver: %s on %s does not say %q: %q %w", command, s.Addr, strings.Join(texts, " "), got, err)
		}
	}
}

// A Cluster is primaries that share the slots, each with as many as the others, in their order.
type Cluster []*Server

// StartCluster starts a Cluster of three servers in a directory, each with more arguments than it needs, and waits until every one
// knows that it is complete.
func StartCluster(dir string, args ...string) (c Cluster, err error) {
	const n = 3
	defer func() {
		if err != nil {
			c.Kill()
		}
	}()
	meet := "ping"
	for i := range n {
		bus, err := freePort()
		if err != nil {
			return c, err
		}
		s, err := Start(dir, append([]string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port", bus, "--cluster-config-file", fmt.Sprintf("nodes%d.conf", i),
		}, args...)...)
		if err != nil {
			return c, err
		}
		c = append(c, s)
		slots := fmt.Sprintf("cluster addslotsrange %d %d", i*16384/n, (i+1)*16384/n-1)
		for _, command := range []string{slots, fmt.Sprintf("cluster set-config-epoch %d", i+1), meet} {
			if _, err := s.Do(command); err != nil {
				return c, err
			}
		}
		if i == 0 {
			meet = fmt.Sprintf("cluster meet %s %s", strings.ReplaceAll(s.Addr, ":", " "), bus)
		}
	}
	for _, s := range c {
		if err := s.Await("cluster info", "cluster_state:ok", "cluster_slots_assigned:16384", fmt.Sprint("cluster_known_nodes:", n)); err != nil {
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
