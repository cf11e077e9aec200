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

// A Process is another process of this program.
type Process struct {
	Place int // of a worker: 0 to their number; that of the one that it replaces

	name          string
	in            io.WriteCloser // the process ends with it
	cmd           *exec.Cmd
	stderr        bytes.Buffer  // that can be read after the end
	done          chan struct{} // closed at the end
	ready, killed bool          // of a worker
}

// start starts the process, a part of this program. It calls line for each line that the process prints, and ended at its end,
// which is not that of ctx.
func (p *Process) start(ctx context.Context, line func(string), ended func(), args ...string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), exe, append([]string{"child"}, args...)...)
	p.cmd.Stderr, p.done = &p.stderr, make(chan struct{})
	in, noIn := p.cmd.StdinPipe()
	out, noOut := p.cmd.StdoutPipe()
	if err := errors.Join(noIn, noOut, p.cmd.Start()); err != nil {
		return err
	}
	p.in = in
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			line(lines.Text())
		}
		_ = p.cmd.Wait() // failure has the reason
		close(p.done)
		ended()
	}()
	return nil
}

const drainTime = 15 * time.Second // after the end of its input; then a process is killed

// stop ends the process, and waits for its end.
func (p *Process) stop() {
	_ = p.in.Close()
	late := time.AfterFunc(drainTime, p.kill)
	defer late.Stop()
	<-p.done
}

func (p *Process) kill() { _ = p.cmd.Process.Kill() }

// failure returns the error of a process that has ended: the last line of its standard error.
func (p *Process) failure() error {
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	return fmt.Errorf("%s has ended: %s", p.name, lines[len(lines)-1])
}

// Servers are the processes that serve a demo. They are stopped in the order opposite to that of their starts.
type Servers struct {
	Lost context.CancelCauseFunc // called when one has ended
	all  []*Process
}

// Start starts a part of this program, which prints one line, and returns the line. Lost must end ctx.
func (s *Servers) Start(ctx context.Context, name string, args ...string) (line string, err error) {
	p := &Process{name: name}
	lines := make(chan string, 1)
	err = p.start(ctx, func(line string) { lines <- line }, func() { s.Lost(p.failure()) }, args...)
	if err != nil {
		return "", err
	}
	s.all = append(s.all, p)
	select {
	case line = <-lines:
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// StartRedis starts a redis-server, and returns its address.
func (s *Servers) StartRedis(ctx context.Context) (addr string, err error) {
	return s.Start(ctx, "redis", "redis")
}

// keepRedis runs a redis-server until ctx ends, and prints its address.
func keepRedis(ctx context.Context, stdout, stderr io.Writer) int {
	srv, err := redisserver.Start(os.TempDir(), "--dbfilename", "gresil-demo.none") //nolint:contextcheck // ctx ends it below
	if err != nil {
		fmt.Fprintf(stderr, "%v: install redis-server, or give the -redis HOST:PORT of one that runs\n", err)
		return 1
	}
	defer srv.Kill()
	fmt.Fprintln(stdout, srv.Addr)
	<-ctx.Done()
	return 0
}

// Stop ends all of them.
func (s *Servers) Stop() {
	for _, p := range slices.Backward(s.all) {
		p.stop()
	}
}
