package timeout

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
)

// A Timeout limits the time of operations. It holds no state but counters, so
// that any number of calls may use it at once.
type Timeout struct {
	life instance.Instance[Config, *Error]

	succeeded, failed, timedOut, canceled atomic.Uint64
	abandoned                             atomic.Int64
}

func lifeCycle() *instance.Kind[Config, *Error] {
	return &instance.Kind[Config, *Error]{
		Kind: "timeout", Type: "timeout.Config", DefaultName: "default",
		Fields: func(c *Config) instance.Fields {
			return instance.Fields{Name: &c.Name, Registry: &c.Registry}
		},
		Settings: func(c *Config) *Error {
			return &Error{Name: cmp.Or(c.Name, "default"), Limit: cmp.Or(c.Limit, 30*time.Second)}
		},
	}
}

// Stats are counts of operations that ended since the timeout was made, except for
// Abandoned.
type Stats struct {
	Succeeded uint64 // without an error, also after the limit
	Failed    uint64 // with an error, within the limit
	TimedOut  uint64 // with an error, after the limit
	Canceled  uint64 // with an error, after the end of the caller's own context

	// Abandoned is the number of operations that timed out and still run, although the
	// adapter does not wait for them. Do always waits.
	Abandoned uint64
}

// New makes a timeout. It returns the errors of [Config.Validate], or of
// [core.Registry.Add].
func New(cfg Config) (*Timeout, error) {
	t := &Timeout{}
	if err := t.life.Init(lifeCycle(), cfg); err != nil {
		return nil, err
	}
	if err := t.life.Register(t, t.SetConfig, registry.Source{Figures: t.figures}); err != nil {
		return nil, err
	}
	return t, nil
}

// SetConfig replaces the Config while the timeout is in use. Its Limit applies to
// operations that begin from now on; counts stay. An empty Name and a nil Registry stay as they are: another one is a
// [*core.ConfigError], as are the errors of [Config.Validate], and nothing changes.
func (t *Timeout) SetConfig(cfg Config) error { return t.life.SetConfig(cfg, nil) }

// Name returns the name of the timeout.
func (t *Timeout) Name() string { return t.life.Name() }

// Config returns the Config of New or of the last SetConfig, as it was given except
// for a Name and Registry that stayed.
func (t *Timeout) Config() Config { return t.life.Load().Config }

// Limit returns the time that an operation may take: negative if there is no limit, and
// never 0.
func (t *Timeout) Limit() time.Duration { return t.cause().Limit }

// cause returns the cause of the end of the context of an operation.
func (t *Timeout) cause() *Error { return t.life.Load().Settings }

// Stats returns the counts so far. They are read one after the other.
func (t *Timeout) Stats() Stats {
	return Stats{
		Succeeded: t.succeeded.Load(),
		Failed:    t.failed.Load(),
		TimedOut:  t.timedOut.Load(),
		Canceled:  t.canceled.Load(),
		Abandoned: uint64(t.abandoned.Load()),
	}
}

// Close removes the timeout from its registry. It goes on working. A second Close
// does nothing; the error is always nil.
func (t *Timeout) Close() error { return t.life.Close() }

// Do runs operation in the caller's goroutine, under a context that ends at the
// limit, and waits for its end. An error after the limit is an [*Error]. If there is no
// limit, or ctx ends no later, operation gets ctx itself.
func Do[T any](ctx context.Context, t *Timeout, operation func(context.Context) (T, error)) (T, error) {
	cause := t.cause()
	limited, cancel := within(ctx, cause)
	defer cancel()
	result, err := operation(limited)
	return result, t.Finish(ctx, limited, err)
}

// Run makes a Timeout a [core.Mechanism]. It does the same as [Do].
func (t *Timeout) Run(ctx context.Context, next core.Next) (any, error) {
	return Do(ctx, t, next.Run)
}

// within returns the context of an operation.
func within(ctx context.Context, cause *Error) (_ context.Context, cancel context.CancelFunc) {
	if cause.Limit < 0 {
		return ctx, func() {}
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= cause.Limit {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, cause.Limit, cause)
}

// Finish is the last part of [Do], for adapters that make the context themselves: caller
// is the caller's context, limited the one derived from it for the operation, and err
// the operation's error. It counts, and returns the error for the caller,
// which is an [*Error] if err is not nil and the cause of the end of limited is an *Error
// that did not end caller.
func (t *Timeout) Finish(caller, limited context.Context, err error) error {
	if err == nil {
		t.succeeded.Add(1)
		return nil
	}
	cause, ours := context.Cause(limited).(*Error)                           //nolint:errorlint // a cause that wraps one is not ours
	if outer, _ := context.Cause(caller).(*Error); !ours || outer == cause { //nolint:errorlint // likewise
		if caller.Err() != nil {
			t.canceled.Add(1)
		} else {
			t.failed.Add(1)
		}
		return err
	}
	t.timedOut.Add(1)
	err = timedOut(cause, limited.Err(), blame.Strip(err))
	t.emit(caller, limited, cause.Limit, err)
	return err
}

// Abandon counts an operation that timed out and is not waited for, until ended is
// called, once. It is for adapters.
func (t *Timeout) Abandon() (ended func()) {
	t.abandoned.Add(1)
	return func() { t.abandoned.Add(-1) }
}

// timedOut returns an error that is a timeout and matches all that err matches, except
// context.Canceled, since the limit canceled the context.
func timedOut(cause *Error, ended, err error) error {
	switch timeout, ok := err.(interface{ Timeout() bool }); { // as net/url: no deeper
	case err == ended: //nolint:errorlint // an error that wraps it is kept
		return cause
	case errors.Is(err, context.Canceled):
		if !joined(err) {
			return cause
		}
		err = notCanceledError{err}
	case ok && timeout.Timeout() && errors.Is(err, cause):
		return err
	}
	return &Error{Name: cause.Name, Limit: cause.Limit, Err: err}
}

// joined reports whether err wraps several errors.
func joined(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if _, ok := err.(interface{ Unwrap() []error }); ok {
			return true
		}
	}
	return false
}

// notCanceledError matches all that its error matches, except context.Canceled. So it has
// no Unwrap.
type notCanceledError struct{ error }

func (e notCanceledError) Is(target error) bool {
	return target != context.Canceled && errors.Is(e.error, target)
}

func (e notCanceledError) As(target any) bool { return errors.As(e.error, target) }
