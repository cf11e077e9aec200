package program

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
)

// RunChild runs a process that [Children] has started. Its context ends when its standard input
// does, so with the demo, however that ends. It leaves it to the demo what ctrl-C or the end of a
// terminal mean.
func RunChild(run func(ctx context.Context) int) int {
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return run(ctx)
}

// Children are the processes that a demo has started. They are ended in the order opposite to that
// of their starts.
type Children struct{ all []*child }

type child struct {
	name   string
	stop   context.CancelFunc // closes its standard input
	done   chan struct{}      // closed when it has ended
	stderr bytes.Buffer       // to be read after that
}

// ended returns the reason.
func (c *child) ended() error {
	lines := strings.Split(strings.TrimSpace(c.stderr.String()), "\n")
	return fmt.Errorf("%s has ended: %s", c.name, lines[len(lines)-1])
}

// Start starts this program as another process, and returns its first line.
func (cs *Children) Start(ctx context.Context, name string, args ...string) (line string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &child{name: name, stop: stop, done: make(chan struct{})}
	out := &FirstLine{Line: make(chan string, 1)}
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
		_ = cmd.Wait() // ended has the reason
	}()
	cs.all = append(cs.all, c)
	select {
	case line = <-out.Line:
		return line, nil
	case <-c.done:
		return "", c.ended()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// StartServers starts the Redis and the vendor that are not given: the vendor with these flags, and the
// Redis if it is needed; otherwise redis can be nil.
func (cs *Children) StartServers(ctx context.Context, redisNeeded bool, redis, vendor *string, flags ...string) (err error) {
	if redisNeeded && *redis == "" {
		if *redis, err = cs.StartRedis(ctx); err != nil {
			return err
		}
	}
	if *vendor == "" {
		*vendor, err = cs.Start(ctx, "the vendor", append([]string{"child", "-addr", "127.0.0.1:0"}, flags...)...)
	}
	return err
}

// Watch calls lost if a process ends before ctx.
func (cs *Children) Watch(ctx context.Context, lost context.CancelCauseFunc) {
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

// Stop ends all of them.
func (cs *Children) Stop() {
	for _, c := range slices.Backward(cs.all) {
		c.stop()
		<-c.done
	}
}

// FirstLine is a writer that sends its first line to Line, which has room for it.
type FirstLine struct {
	Line chan string

	mu   sync.Mutex
	text string
}

func (w *FirstLine) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.Contains(w.text, "\n") {
		return len(p), nil
	}
	w.text += string(p)
	if line, _, ok := strings.Cut(w.text, "\n"); ok {
		w.Line <- line
	}
	return len(p), nil
}
