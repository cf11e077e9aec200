// Package minheap is a heap whose elements know their places, so that any of them can be removed.
package minheap

import (
	"iter"
	"slices"
)

// A Place is embedded in an element. The zero Place is in no heap.
type Place struct{ index int } // 1 is the first

// Self returns the Place of an element.
func (p *Place) Self() *Place { return p }

// An Element is a pointer to a struct that embeds a [Place].
type Element[T any] interface {
	// Before orders the elements. What it reads must not change while the element is in a heap.
	Before(other T) bool
	Self() *Place
}

// A Heap has the element first that is before all others. The zero value is empty.
type Heap[T Element[T]] struct{ all []T }

// Len returns the number of elements.
func (h *Heap[T]) Len() int { return len(h.all) }

// First returns the first element. The heap must not be empty.
func (h *Heap[T]) First() T { return h.all[0] }

// All iterates over the elements, in no particular order.
func (h *Heap[T]) All() iter.Seq[T] { return slices.Values(h.all) }

// Add adds an element that is in no heap.
func (h *Heap[T]) Add(x T) {
	h.all = append(h.all, x)
	h.settle(len(h.all)-1, x)
}

// Remove removes an element of this heap. One that is in no heap stays so.
func (h *Heap[T]) Remove(x T) {
	i := x.Self().index - 1
	if i < 0 {
		return
	}
	x.Self().index = 0
	n := len(h.all) - 1
	last := h.all[n]
	clear(h.all[n:])
	h.all = h.all[:n]
	if i < n {
		h.settle(i, last)
	}
}

// Count returns the number of elements for which f reports true, if it does so for all that are before one of them.
func (h *Heap[T]) Count(f func(T) bool) int { return h.count(0, f) }

func (h *Heap[T]) count(i int, f func(T) bool) int {
	if i >= len(h.all) || !f(h.all[i]) {
		return 0
	}
	return 1 + h.count(2*i+1, f) + h.count(2*i+2, f)
}

// settle puts x where it belongs, beginning at i, which is free.
func (h *Heap[T]) settle(i int, x T) {
	for i > 0 && x.Before(h.all[(i-1)/2]) {
		h.set(i, h.all[(i-1)/2])
		i = (i - 1) / 2
	}
	for {
		child := 2*i + 1
		if child+1 < len(h.all) && h.all[child+1].Before(h.all[child]) {
			child++
		}
		if child >= len(h.all) || !h.all[child].Before(x) {
			break
		}
		h.set(i, h.all[child])
		i = child
	}
	h.set(i, x)
}

func (h *Heap[T]) set(i int, x T) {
	h.all[i] = x
	x.Self().index = i + 1
}
