package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
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
