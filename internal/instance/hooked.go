package instance

import "github.com/gresil/gresil/internal/hook"

// Hooked is an Instance with typed hooks H, which are a field of its Config.
type Hooked[C interface{ Validate() error }, S any, H interface{ Join(other H) H }] struct {
	Instance[C, S]

	Panics hook.Panics // of hooks
	hooks  hook.Set[H]
}

// InitHooks is Init with the hooks of a Config.
func (i *Hooked[C, S, H]) InitHooks(kind *Kind[C, S], hooks func(*C) H, cfg C) error {
	i.adopted = func(c *C) { i.hooks.Own(hooks(c)) }
	return i.Init(kind, cfg)
}

// Hooks returns the hooks of the Config and of all observers, joined: one atomic load.
func (i *Hooked[C, S, H]) Hooks() *H { return i.hooks.Load() }

// Observe adds hooks until cancel is called. Hooks that run at that moment are not interrupted.
func (i *Hooked[C, S, H]) Observe(h H) (cancel func()) { return i.hooks.Add(h) }
