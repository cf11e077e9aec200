// Package deadline is what core/timeout and plugins/timeout share. timeout.Timeout is a type defined by the Timeout here, so the plugin
// converts it, and users see no method for adapters.
package deadline

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/override"
	"github.com/gresil/gresil/internal/registry"
)

// A Timeout is a life cycle and counters. C is the Config.
type Timeout[C interface{ Validate() error }] struct {
	life instance.Instance[C, *Limit]

	succeeded, failed, timedOut atomic.Uint64
}

// A Limit is the settings of a Config.
type Limit struct {
	Time  time.Duration     // negative if there is no limit
	Cause error             // of the context that ends at the limit, and of the operation
	Wrap  func(error) error // returns a Cause with the error of an operation
}

// Life returns the life cycle.
func (t *Timeout[C]) Life() *instance.Instance[C, *Limit] { return &t.life }

// Override returns a context under which f changes the Config.
func (t *Timeout[C]) Override(ctx context.Context, f func(*C)) context.Context {
	return override.Context(ctx, t, f)
}

// Limit returns the limit of an operation under ctx.
func (t *Timeout[C]) Limit(ctx context.Context) *Limit {
	current := t.life.Load()
	f := override.From[Timeout[C], C](ctx, t)
	if f == nil {
		return current.Settings
	}
	cfg := current.Config
	f(&cfg)
	return t.life.Settings(cfg)
}

// Nearer reports whether the end of ctx is nearer than the limit, or there is none.
func (l *Limit) Nearer(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return l.Time < 0 || ok && time.Until(deadline) <= l.Time
}

// Context returns a context that ends at the limit, unless that of the caller does before.
func (l *Limit) Context(caller context.Context) (limited context.Context, cancel context.CancelFunc) {
	if l.Nearer(caller) {
		return caller, func() {}
	}
	return context.WithTimeoutCause(caller, l.Time, l.Cause)
}

// Struck reports whether the limit has ended a context of [Limit.Context], and not the one of the caller.
func (l *Limit) Struck(caller, limited context.Context) bool {
	return context.Cause(limited) == l.Cause && context.Cause(caller) != l.Cause //nolint:errorlint // another one is not ours
}

// Count counts an operation that has ended with err, and returns its error, which is a Cause of the limit if that has struck.
func (t *Timeout[C]) Count(caller, limited context.Context, l *Limit, err error) error {
	switch {
	case err == nil:
		t.succeeded.Add(1)
	case errors.Is(context.Cause(caller), blame.ErrHeld): // no call was made
	case l.Struck(caller, limited):
		t.timedOut.Add(1)
		err = l.late(limited.Err(), err)
		t.emit(caller, limited, l, err)
	default:
		t.failed.Add(1)
	}
	return err
}

// late returns the error of an operation over the limit. The error that says no more than the end of its context is left out.
func (l *Limit) late(ended, err error) error {
	timeout, ok := err.(interface{ Timeout() bool }) // as net/url: no deeper
	switch {
	case err == ended, errors.Is(err, context.Canceled): //nolint:errorlint // an error that wraps it is kept
		return l.Cause
	case ok && timeout.Timeout() && errors.Is(err, l.Cause):
		return err
	}
	return l.Wrap(err)
}

func (t *Timeout[C]) emit(caller, limited context.Context, l *Limit, err error) {
	if !t.life.Calls() {
		return
	}
	elapsed := l.Time
	if deadline, ok := limited.Deadline(); ok {
		elapsed += max(0, time.Since(deadline))
	}
	t.life.Emit(caller, registry.Event{Text: "timed out", Call: true, Attrs: []slog.Attr{
		slog.Duration("limit", l.Time), slog.Duration("elapsed", elapsed), slog.Any("err", err),
	}})
}

// Counts returns how many operations have ended: without an error, with another error, and with an error after the limit.
func (t *Timeout[C]) Counts() (succeeded, failed, timedOut uint64) {
	return t.succeeded.Load(), t.failed.Load(), t.timedOut.Load()
}

// Figures returns the counts and the limit.
func (t *Timeout[C]) Figures() (f registry.Figures) {
	succeeded, failed, timedOut := t.Counts()
	f.Counts("calls_total", "Calls that ended, by result.", "result", "success", succeeded, "failure", failed, "timeout", timedOut)
	if limit := t.life.Load().Settings.Time; limit > 0 {
		f.Add("limit_seconds", "Time limit of a call; no sample without a limit.", limit.Seconds())
	}
	return f
}
