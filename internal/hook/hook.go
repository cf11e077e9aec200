// Package hook guards the calls of users' hooks.
package hook

import (
	"runtime/debug"
	"sync/atomic"
)

// Panics counts the panics of hooks and keeps the first one. The zero value is
// ready to use.
type Panics struct {
	count atomic.Uint64
	first atomic.Pointer[Panic]
}

// A Panic is a panic that a hook ended with.
type Panic struct {
	Value any
	Stack []byte
}

// Recover ends a panic of the function that defers it: defer p.Recover().
func (p *Panics) Recover() {
	if v := recover(); v != nil {
		p.count.Add(1)
		if p.first.Load() == nil {
			p.first.CompareAndSwap(nil, &Panic{Value: v, Stack: debug.Stack()})
		}
	}
}

// Count is the number of panics so far.
func (p *Panics) Count() uint64 { return p.count.Load() }

// First is the first panic, or nil.
func (p *Panics) First() *Panic { return p.first.Load() }
