// Package timeout limits the time of an operation.
//
//	limit, err := timeout.New(timeout.Config{Name: "report", Limit: 5 * time.Second})
//	if err != nil {
//		return err
//	}
//	report, err := timeout.Do(ctx, limit, func(ctx context.Context) (Report, error) {
//		return build(ctx)
//	})
//
// The operation gets a context that ends at the limit. Do waits until the operation returns: one that ignores its context is not cut short.
// For a single call, context.WithTimeout does the same without a name and counters. For HTTP there is plugins/timeout.
//
// # Guarantees
//
// An error after the limit is an [*Error], and so is the cause of the context. A result without an error is a success, even after the
// limit. The end of the caller's own context is never reported as a timeout of this limit. No goroutine is started.
package timeout

import (
	"cmp"
	"context"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/deadline"
	"github.com/gresil/gresil/internal/instance"
	"github.com/gresil/gresil/internal/registry"
)

// Config configures a [Timeout]. The zero value is useful: 30 seconds.
//
// A Config is a plain value: copy it to derive another one from it.
type Config struct {
	// Name names the timeout in errors and in the registry. If empty, it is "default".
	Name string
	// Registry registers the timeout under the kind "timeout" and its name. If nil, it is not registered.
	Registry *core.Registry

	// Limit is the time that an operation can take. If zero, it is 30 seconds. If negative, there is no limit.
	Limit time.Duration
}

// Validate returns nil: every value can be used.
func (c Config) Validate() error { return nil }

// A Timeout limits the time of operations. It is safe for concurrent use. It is a core.Mechanism.
type Timeout deadline.Timeout[Config]

func (t *Timeout) inner() *deadline.Timeout[Config] { return (*deadline.Timeout[Config])(t) }

// New makes a timeout. It returns an error if the name is in use in the registry.
func New(cfg Config) (*Timeout, error) {
	t := &Timeout{}
	kind := &instance.Kind[Config, *deadline.Limit]{
		Kind: "timeout", Type: "timeout.Config", DefaultName: "default",
		Fields: func(c *Config) instance.Fields { return instance.Fields{Name: &c.Name, Registry: &c.Registry} },
		Settings: func(c *Config) *deadline.Limit {
			late := Error{Name: cmp.Or(c.Name, "default"), Limit: cmp.Or(c.Limit, 30*time.Second)}
			return &deadline.Limit{Time: late.Limit, Cause: &late, Wrap: func(err error) error {
				return &Error{Name: late.Name, Limit: late.Limit, Err: err}
			}}
		},
	}
	if err := t.inner().Life().Init(kind, cfg); err != nil {
		return nil, err
	}
	if err := t.inner().Life().Register(t, t.SetConfig, registry.Source{Figures: t.inner().Figures}); err != nil {
		return nil, err
	}
	return t, nil
}

// Do runs operation in the caller's goroutine, under a context that ends at the limit. A nil t stands for a timeout of the zero Config.
func Do[T any](ctx context.Context, t *Timeout, operation func(context.Context) (T, error)) (T, error) {
	if t == nil {
		t = core.Must(New(Config{}))
	}
	limit := t.inner().Limit(ctx)
	limited, cancel := limit.Context(ctx)
	defer cancel()
	result, err := operation(limited)
	return result, t.inner().Count(ctx, limited, limit, err)
}

// Override returns a context under which f changes the Config for operations of this timeout. Overrides nest; the innermost is applied
// last. Name and Registry cannot be changed.
func (t *Timeout) Override(ctx context.Context, f func(*Config)) context.Context {
	return t.inner().Override(ctx, f)
}

// Name returns the name of the timeout.
func (t *Timeout) Name() string { return t.inner().Life().Name() }

// Config returns the Config of New or of the last SetConfig.
func (t *Timeout) Config() Config { return t.inner().Life().Load().Config }

// SetConfig replaces the Config for operations that begin from now on. An empty Name and a nil Registry stay as they are; another Name or
// Registry is a *core.ConfigError, and nothing changes.
func (t *Timeout) SetConfig(cfg Config) error { return t.inner().Life().SetConfig(cfg, nil) }

// Stats returns the counts so far.
func (t *Timeout) Stats() (s Stats) {
	s.Succeeded, s.Failed, s.TimedOut = t.inner().Counts()
	return s
}

// Close removes the timeout from its registry. The timeout still works.
func (t *Timeout) Close() error { return t.inner().Life().Close() }

// Run does the same as [Do]. It makes the Timeout a core.Mechanism.
func (t *Timeout) Run(ctx context.Context, next core.Next) (any, error) { return Do(ctx, t, next.Run) }
