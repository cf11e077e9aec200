package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// A load offers calls at their times.
type load struct {
	cfg   config
	start time.Time

	served, failed atomic.Int64
	latest         atomic.Int64 // the time since the start at which a call was served

	mu    sync.Mutex
	first error // of the calls that failed
}

// A control goes on for so long without a call that is served: a time of the vendor, and one of our
// own. It could go on for hours.
const (
	patience      = time.Minute
	leastPatience = 5 * time.Second
)

var errStalled = errors.New("stopped, as no call was served for a minute of the vendor")

// watch calls stop when no call was served for too long, after all were offered.
func (l *load) watch(ctx context.Context, stop context.CancelCauseFunc) {
	long := max(leastPatience, time.Duration(float64(patience)/l.cfg.scale))
	ticker := time.NewTicker(long / 10)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if time.Since(l.start)-max(time.Duration(l.latest.Load()), l.cfg.at(l.cfg.calls)) > long {
			stop(errStalled)
		}
	}
}

// offer offers all calls, or those until the end of ctx, and waits for their ends.
func (l *load) offer(ctx context.Context, call func(ctx context.Context, n int) error) {
	var wg sync.WaitGroup
	defer wg.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range l.cfg.calls {
		if early := time.Until(l.start.Add(l.cfg.at(i))); early > 0 {
			timer.Reset(early)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return
		}
		wg.Go(func() { l.note(ctx, call(ctx, i+1)) })
	}
}

func (l *load) note(ctx context.Context, err error) {
	switch {
	case err == nil:
		l.served.Add(1)
		l.latest.Store(int64(time.Since(l.start)))
	case ctx.Err() == nil:
		l.failed.Add(1)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.first == nil {
			l.first = err
		}
	}
}

// show runs the whole: the vendor, the load, and the vendor's view of it.
func show(ctx context.Context, cfg config, stderr *screen) (s summary) {
	s = newSummary(cfg)
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	if cfg.vendor == "" {
		var children program.Children
		defer children.Stop()
		url, err := children.Start(ctx, "the vendor", "child", "-addr", "127.0.0.1:0", "-scale", fmt.Sprint(cfg.scale))
		if err != nil {
			return s.fail(err)
		}
		children.Watch(running, end)
		cfg.vendor = url
	}
	fmt.Fprintf(stderr, "vendor: %s\n", cfg.vendor)
	r := newRemote(cfg.vendor, end)
	defer r.client.CloseIdleConnections()
	a, err := newAlgorithm(running, cfg, r, stderr)
	if err != nil {
		return s.fail(err)
	}
	l := &load{cfg: cfg, start: time.Now()}
	if cfg.algorithm != "gresil" {
		go l.watch(running, end)
	}
	stop := stderr.follow(l, r, a)
	l.offer(running, a.call)
	stop()
	a.stop()
	s.Served, s.Failed, s.first = l.served.Load(), l.failed.Load(), l.first
	switch cause := context.Cause(running); {
	case ctx.Err() != nil:
		s.note = "interrupted"
	case errors.Is(cause, errStalled):
		s.note = cause.Error()
	case cause != nil:
		return s.fail(cause)
	}
	s.figures, err = r.judge(context.WithoutCancel(ctx))
	s.Judged = s.figures != nil
	return s.fail(err)
}
