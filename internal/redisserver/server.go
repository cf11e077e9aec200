// Package redisserver runs redis-server for tests and demos: a process of its own on a free port, that
// writes nothing to disk.
package redisserver

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"time"
)

// A Server is a redis-server. It is for one goroutine.
type Server struct {
	Addr string // HOST:PORT
	args []string
	cmd  *exec.Cmd
}

// Start starts a server in a directory, with more arguments than it needs.
func Start(dir string, args ...string) (*Server, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", port), args: append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir,
	}, args...)}
	return s, s.Restart()
}

// FreePort is a port on which nobody listens.
func FreePort() (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port, l.Close()
}

// Restart starts the server again after Kill, and waits until it listens.
func (s *Server) Restart() error {
	s.cmd = exec.CommandContext(context.Background(), "redis-server", s.args...) //nolint:gosec // the arguments of our own tests and demos
	if err := s.cmd.Start(); err != nil {
		return err
	}
	dialer := net.Dialer{Timeout: time.Second}
	for range 1000 {
		if conn, err := dialer.DialContext(context.Background(), "tcp", s.Addr); err == nil {
			return conn.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.Kill()
	return fmt.Errorf("redisserver: redis-server does not listen on %s", s.Addr)
}

// Kill ends the server at once, as a crash would.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // the error says that it was killed
		s.cmd = nil
	}
}
