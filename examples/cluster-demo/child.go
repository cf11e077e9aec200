package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gresil/gresil/examples/internal/demoserver"
	"github.com/gresil/gresil/internal/redisserver"
)

// isChild reports whether the first argument makes this process one of those that the demo starts.
func isChild(arg string) bool { return arg == "redis" || arg == "server" }

// runChild is such a process. It ends when its standard input does, so with the demo, however that
// ends. It leaves it to the demo what ctrl-C or the end of a terminal mean.
func runChild(args []string) int {
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if args[0] == "server" {
		return demoserver.Run(ctx, args[1:], os.Stdout, os.Stderr)
	}
	if err := keepRedis(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// keepRedis has a redis-server until ctx ends, and prints its address.
func keepRedis(ctx context.Context, stdout io.Writer) error {
	dir, err := os.MkdirTemp("", "cluster-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is empty
	srv, err := redisserver.Start(dir)       //nolint:contextcheck // ctx ends it below
	if err != nil {
		return err
	}
	defer srv.Kill()
	fmt.Fprintln(stdout, srv.Addr)
	<-ctx.Done()
	return nil
}

// A child is a process that the demo has started.
type child struct {
	name   string
	stop   context.CancelFunc // closes its standard input
	done   chan struct{}      // closed when it has ended
	stderr bytes.Buffer       // to be read after that
}

// ended says why it has.
func (c *child) ended() error {
	lines := strings.Split(strings.TrimSpace(c.stderr.String()), "\n")
	return fmt.Errorf("%s has ended: %s", c.name, lines[len(lines)-1])
}

// children are ended in the order opposite to that of their starts.
type children struct{ all []*child }

// start starts this program as another one, and returns its first line.
func (cs *children) start(ctx context.Context, name string, args ...string) (line string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &child{name: name, stop: stop, done: make(chan struct{})}
	out := &firstLine{line: make(chan string, 1)}
	cmd := exec.CommandContext(own, exe, args...)
	cmd.Stdout, cmd.Stderr = out, &c.stderr
	cmd.WaitDelay = 15 * time.Second // then it is killed
	in, err := cmd.StdinPipe()
	if err == nil {
		cmd.Cancel = in.Close
		err = cmd.Start()
	}
	if err != nil {
		stop()
		return "", err
	}
	go func() {
		defer close(c.done)
		_ = cmd.Wait() // ended says why
	}()
	cs.all = append(cs.all, c)
	select {
	case line = <-out.line:
		return line, nil
	case <-c.done:
		return "", c.ended()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// watch calls lost when one of them ends before ctx.
func (cs *children) watch(ctx context.Context, lost context.CancelCauseFunc) {
	for _, c := range cs.all {
		go func() {
			select {
			case <-c.done:
				lost(c.ended())
			case <-ctx.Done():
			}
		}()
	}
}

// stop ends all of them.
func (cs *children) stop() {
	for _, c := range slices.Backward(cs.all) {
		c.stop()
		<-c.done
	}
}

// firstLine hands out the first line that is written to it.
type firstLine struct {
	mu   sync.Mutex
	text string
	line chan string
}

func (w *firstLine) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.Contains(w.text, "\n") {
		return len(p), nil
	}
	w.text += string(p)
	if line, _, ok := strings.Cut(w.text, "\n"); ok {
		w.line <- line
	}
	return len(p), nil
}
