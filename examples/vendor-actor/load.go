package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/examples/internal/demo"
)

// A load offers calls at their times.
type load struct {
	config
	start time.Time

	served, failed atomic.Int64
	latest         atomic.Int64 // the time since the start at which a call was served

	mu    sync.Mutex
	first error // of the calls that failed
}

// A control goes on for so long without a call that is served: a time of the vendor, and one of our own.
const (
	patience      = time.Minute
	leastPatience = 5 * time.Second
)

var errStalled = fmt.Errorf("%w, as no call was served for a minute of the vendor", demo.ErrStalled)

// watch calls stop when no call was served for too long, after all were offered.
func (l *load) watch(ctx context.Context, stop context.CancelCauseFunc) {
	long := max(leastPatience, time.Duration(float64(patience)/l.scale))
	demo.Repeat(ctx, long/10, func() {
		if time.Since(l.start)-max(time.Duration(l.latest.Load()), l.at(l.calls)) > long {
			stop(errStalled)
		}
	})
}

// offer offers all calls, or those until the end of ctx, and waits for their ends.
func (l *load) offer(ctx context.Context, call func(ctx context.Context, n int) error) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range l.calls {
		if early := time.Until(l.start.Add(l.at(i))); early > 0 {
			_ = demo.Sleep(ctx, early)
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

// run makes all calls, until ctx ends.
func (l *load) run(ctx context.Context, end context.CancelCauseFunc, screen *demo.Screen) error {
	c, err := newCaller(ctx, l.config, end, screen)
	if err != nil {
		return err
	}
	defer c.close(context.WithoutCancel(ctx))
	l.start = time.Now()
	if l.Algorithm == demo.Control {
		go l.watch(ctx, end)
	}
	defer screen.Follow(ctx, l.start, func() (float64, string) {
		done := l.served.Load() + l.failed.Load()
		text := fmt.Sprintf("%d of %d served, %d failed, %d attempts refused%s",
			l.served.Load(), l.calls, l.failed.Load(), c.refused.Load(), c.paused())
		return float64(done) / float64(l.calls), text
	})()
	l.offer(ctx, c.call)
	return nil
}

// report makes all calls, and returns the vendor's view of them.
func (c config) report(ctx context.Context, f demo.Flags, screen *demo.Screen) *demo.Report {
	c.Flags = f
	r := &demo.Report{Algorithm: c.Algorithm}
	r.Flags("calls", c.calls, "rate", c.rate, "capacity", c.capacity, "limit", c.limit, "scale", c.scale)
	var l load
	r.Load(ctx, &c.Flags, screen, c.Serve(false, "-scale", fmt.Sprint(c.scale)), func(ctx context.Context, end context.CancelCauseFunc) error {
		l.config = c
		return l.run(ctx, end, screen)
	})
	served, failed := int(l.served.Load()), l.failed.Load()
	r.Set("served", served, "Calls that the vendor has answered with 200.")
	r.Set("failed", failed, "Calls that were given up.")
	r.Arrivals("second", 100)
	r.Take("trips", "trips", "So many times a call was over the limit, and started a pause.")
	r.Take("escalations", "escalations", "So many calls were made in a pause, and doubled it.")
	r.Take("worst_penalty_s", "worst_penalty_s", "The longest pause, in seconds.")
	r.Problem(served < c.calls, "%d of %d calls were not served", c.calls-served, c.calls)
	r.Problem(l.first != nil, "%d failed, the first: %v", failed, l.first)
	trips, escalations := r.Figures.Num("trips"), r.Figures.Num("escalations")
	r.Broken(trips > 0, false, "trips: %v", trips)
	r.Broken(escalations > 0, false, "escalations: %v", escalations)
	return r
}
