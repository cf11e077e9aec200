// Package redisserver runs redis-server for tests and demos: a process of its own on a free port, that
// writes nothing to disk.
package redisserver

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// patience is how long servers may take until they are ready.
const patience = time.Minute

// A Server is a redis-server. It is for one goroutine.
type Server struct {
	Addr    string // HOST:PORT
	program string // if empty, redis-server
	args    []string
	cmd     *exec.Cmd
	logged  chan struct{} // closed at the end of its output
}

// Start starts a server in a directory, with more arguments than it needs. Kill ends it.
func Start(dir string, args ...string) (*Server, error) { return StartProgram("", dir, args...) }

// StartProgram is Start with another program of the same arguments, as valkey-server.
func StartProgram(program, dir string, args ...string) (*Server, error) {
	return again(func() (*Server, error) {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		s := &Server{Addr: net.JoinHostPort("127.0.0.1", port), program: program, args: append([]string{
			"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir,
		}, args...)}
		return s, s.Restart()
	})
}

// again repeats the start of a server: another process might have taken its port.
func again(start func() (*Server, error)) (s *Server, err error) {
	for range 5 {
		if s, err = start(); err == nil {
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

// FreePort returns a port without a listener. It is below those that the kernel gives to others, and not
// soon the same again, so that it stays free while a server that was killed is restarted.
func FreePort() (port string, err error) {
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
	cmd := exec.CommandContext(context.Background(), cmp.Or(s.program, "redis-server"), s.args...) //nolint:gosec // the arguments of our own tests and demos
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
		if last = strings.TrimSpace(line); strings.Contains(line, "Ready to accept") || strings.Contains(line, "+monitor") {
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

// Do sends one command over a connection of its own, and returns the reply as text: that of many
// parts has one in a line. A reply that is an error is one.
func (s *Server) Do(words ...string) (string, error) {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(context.Background(), "tcp", s.Addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(conn, strings.Join(words, " ")+"\r\n"); err != nil {
		return "", err
	}
	return reply(bufio.NewReader(conn))
}

func reply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(line[1:], "\r\n")
	n, _ := strconv.Atoi(text)
	switch line[0] {
	case '-':
		return "", fmt.Errorf("redisserver: %s", text)
	case '$':
		data := make([]byte, max(0, n+2))
		_, err := io.ReadFull(r, data)
		return strings.TrimSuffix(string(data), "\r\n"), err
	case '*':
		var parts []string
		for range n {
			part, err := reply(r)
			if err != nil {
				return "", err
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, "\n"), nil
	}
	return text, nil
}

// await asks the server until the reply has all of the texts.
func (s *Server) await(command string, texts ...string) error {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		got, err := s.Do(command)
		ready := err == nil
		for _, text := range texts {
			ready = ready && strings.Contains(got, text)
		}
		if ready {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("redisserver: %s on %s does not say %q: %q %w", command, s.Addr, strings.Join(texts, " "), got, err)
		}
	}
}
