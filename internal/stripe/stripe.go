// Package stripe has counters that many goroutines can increment at once.
package stripe

import (
	"sync/atomic"
	"unsafe"
)

// A Counter is spread over several cache lines: one would be written to by all
// processors, and cost more than the rest of such a call. The zero value is
// ready to use.
type Counter [8]line

type line struct {
	_ [56]byte // first, so that what lies before the counter is on another line too
	n atomic.Uint64
}

// Inc adds one, on the line that the address of the goroutine's stack picks.
func (c *Counter) Inc() {
	var here byte
	address := uint64(uintptr(unsafe.Pointer(&here)))
	c[(address>>10*0x9e3779b97f4a7c15)>>61].n.Add(1)
}

// Load returns the sum.
func (c *Counter) Load() (sum uint64) {
	for i := range c {
		sum += c[i].n.Load()
	}
	return sum
}
