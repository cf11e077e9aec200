package groups

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

const lateness = time.Second // for which Close waits for what it has ended

// A Lifetime is what Run and Close of a service have in common: one Run at a time, none after Close, the contexts under which it
// works, and whether its engine fails. Call Init before any other method.
type Lifetime struct {
	Closing <-chan struct{} // closed by Close

	closed, running  error
	closing, patient context.Context //nolint:containedctx // they end with shut and end
	shut, end        func()          // by Close, and when it no longer waits
	listeners        *registry.Listeners
	failing          atomic.Bool // the engine, at its last reply

	mu    sync.Mutex
	ended chan struct{} // closed when what runs has ended; nil if nothing runs
}

// Init sets the errors of a Run after Close, and beside another Run.
func (l *Lifetime) Init(closed, running error, listeners *registry.Listeners) {
	l.closed, l.running, l.listeners = closed, running, listeners
	l.closing, l.shut = context.WithCancel(context.Background())
	l.patient, l.end = context.WithCancel(context.Background())
	l.Closing = l.closing.Done()
}

// Closed reports whether Close was called.
func (l *Lifetime) Closed() bool { return l.closing.Err() != nil }

// Run calls work, unless it runs already, or Close was called. The first context of work ends with ctx, and the second one so much later
// as grace says then; without grace it does not. Both end when Close no longer waits.
func (l *Lifetime) Run(ctx context.Context, grace func() time.Duration, work func(stopping, working context.Context)) error {
	l.mu.Lock()
	switch {
	case l.Closed():
		l.mu.Unlock()
		return l.closed
	case l.ended != nil:
		l.mu.Unlock()
		return l.running
	}
	l.ended = make(chan struct{})
	l.mu.Unlock()
	l.run(ctx, grace, work)
	return nil
}

func (l *Lifetime) run(ctx context.Context, grace func() time.Duration, work func(stopping, working context.Context)) {
	stopping, stop := context.WithCancel(ctx)
	defer stop()
	working, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(l.patient, func() { stop(); end() })() //nolint:contextcheck // it ends with Close
	if grace != nil {
		defer context.AfterFunc(ctx, func() { time.AfterFunc(grace(), end) })()
	}
	work(stopping, working)
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.ended)
	l.ended = nil
}

// Shut lets no Run begin.
func (l *Lifetime) Shut() { l.shut() }

// Close lets no Run begin, and waits for the end of what runs. Then rest, which may be nil, is called as by a Run. If ctx ends before, it
// returns the cause.
func (l *Lifetime) Close(ctx context.Context, rest func(stopping, working context.Context)) error {
	for {
		l.mu.Lock()
		l.shut()
		if l.ended == nil && rest != nil {
			l.ended = make(chan struct{})
			go l.run(context.WithoutCancel(ctx), nil, rest)
			rest = nil
		}
		ended := l.ended
		l.mu.Unlock()
		if ended == nil {
			return nil
		}
		select {
		case <-ended:
			continue
		case <-ctx.Done():
		}
		l.end()
		Sleep(context.WithoutCancel(ctx), lateness, ended)
		return context.Cause(ctx)
	}
}

// Sleep waits for d. It returns earlier when ctx ends, or when wake, which may be nil, has an element or is closed.
func Sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// EngineIs reports that the engine has failed, or that it works again. An error after the end of ctx says nothing.
func (l *Lifetime) EngineIs(ctx context.Context, err error, attrs ...slog.Attr) {
	if err != nil && ctx.Err() != nil {
		return
	}
	changed := l.failing.Load() != (err != nil) && l.failing.Swap(err != nil) != (err != nil)
	switch {
	case !l.listeners.Listening():
	case err != nil:
		attrs = append(attrs, slog.Any("err", err))
		l.listeners.Emit(ctx, registry.Event{Text: "engine failed", Warn: true, Outage: true, Attrs: attrs})
	case changed:
		l.listeners.Emit(ctx, registry.Event{Text: "engine has recovered", Outage: true})
	}
}
