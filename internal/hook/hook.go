// Package hook guards the calls of users' hooks.
package hook

import "sync/atomic"

// Panics counts the panics of hooks. The zero value is ready to use.
type Panics struct{ count atomic.Uint64 }

// Recover ends a panic of the function that defers it: defer p.Recover().
func (p *Panics) Recover() {
	if v := recover(); v != nil {
		p.count.Add(1)
	}
}

// Count is the number of panics so far.
func (p *Panics) Count() uint64 { return p.count.Load() }
