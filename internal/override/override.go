// Package override carries changes of a plugin's settings for one request.
package override

import "context"

// A key belongs to one plugin: another plugin under the same context is not affected.
type key[P any] struct{ plugin *P }

// Context returns a context under which f changes the settings of plugin. Overrides
// nest: the innermost is applied last. A nil f changes nothing.
func Context[P, C any](ctx context.Context, plugin *P, f func(*C)) context.Context {
	if f == nil {
		return ctx
	}
	if outer := From[P, C](ctx, plugin); outer != nil {
		inner := f
		f = func(c *C) { outer(c); inner(c) }
	}
	return context.WithValue(ctx, key[P]{plugin}, f)
}

// From returns the change that the context has for plugin, or nil.
func From[P, C any](ctx context.Context, plugin *P) func(*C) {
	f, _ := ctx.Value(key[P]{plugin}).(func(*C))
	return f
}

// Apply returns settings, or a copy with the changes that the context has for plugin.
func Apply[P, C any](ctx context.Context, plugin *P, settings *C) *C {
	f := From[P, C](ctx, plugin)
	if f == nil {
		return settings
	}
	changed := *settings
	f(&changed)
	return &changed
}
