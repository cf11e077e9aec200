package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/redisserver"
)

// A process is another process of this program.
type process struct {
	name string
	in   io.WriteCloser // the process ends with it
	done chan struct{}  // closed after its end

	cmd    *exec.Cmd
	stderr bytes.Buffer // that can be read then
}

// start starts this program with the arguments. It calls line for each line that the process prints. The process does not
// end with ctx.
func start(ctx context.Context, name string, line func(string), args ...string) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, done: make(chan struct{}), cmd: exec.CommandContext(context.WithoutCancel(ctx), exe, args...)}
	p.cmd.Stderr = &p.stderr
	in, noIn := p.cmd.StdinPipe()
	out, noOut := p.cmd.StdoutPipe()
	if err := errors.Join(noIn, noOut, p.cmd.Start()); err != nil {
		return nil, err
	}
	p.in = in
	go func() {
		defer close(p.done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			line(lines.Text())
		}
		_ = p.cmd.Wait() // ended has the reason
	}()
	return p, nil
}

const drainTime = 15 * time.Second // after the end of its input; then a process is killed

// stop ends the process, and waits for its end.
func (p *process) stop() {
	_ = p.in.Close()
	late := time.AfterFunc(drainTime, p.kill)
	defer late.Stop()
	<-p.done
}

func (p *process) kill() { _ = p.cmd.Process.Kill() }

// reason returns the last line that the process has written to its standard error.
func (p *process) reason() string {
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	return lines[len(lines)-1]
}

func (p *process) ended() error { return fmt.Errorf("%s has ended: %s", p.name, p.reason()) }

// Servers are the processes that serve a demo. They are ended in the order opposite to that of their starts.
type Servers struct{ all []*process }

// Start starts a part of this program as another process, and returns its first line.
func (s *Servers) Start(ctx context.Context, name string, args ...string) (line string, err error) {
	lines := make(chan string, 1)
	p, err := start(ctx, name, func(line string) {
		select {
		case lines <- line:
		default:
		}
	}, append([]string{"child"}, args...)...)
	if err != nil {
		return "", err
	}
	s.all = append(s.all, p)
	select {
	case line = <-lines:
		return line, nil
	case <-p.done:
		return "", p.ended()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// StartRedis starts a redis-server, and returns its address.
func (s *Servers) StartRedis(ctx context.Context) (addr string, err error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return "", errors.New("redis-server is not installed: install it, or give the -redis HOST:PORT of one that runs")
	}
	return s.Start(ctx, "redis", "redis")
}

// keepRedis runs a redis-server until ctx ends, and prints its address.
func keepRedis(ctx context.Context, stdout, stderr io.Writer) int {
	dir, err := os.MkdirTemp("", "gresil-demo-")
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is empty
	srv, err := redisserver.Start(dir)       //nolint:contextcheck // ctx ends it below
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	defer srv.Kill()
	fmt.Fprintln(stdout, srv.Addr)
	<-ctx.Done()
	return 0
}

// Watch calls lost if a server ends before ctx.
func (s *Servers) Watch(ctx context.Context, lost context.CancelCauseFunc) {
	for _, p := range s.all {
		go func() {
			select {
			case <-p.done:
				lost(p.ended())
			case <-ctx.Done():
			}
		}()
	}
}

// Stop ends all of them.
func (s *Servers) Stop() {
	for _, p := range slices.Backward(s.all) {
		p.stop()
	}
}
