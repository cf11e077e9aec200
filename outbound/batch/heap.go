package batch

import "time"

// A timed element is in at most one [timers].
type timed struct {
	at    time.Time
	place int // index plus 1, or 0 if it is in none
}

// timers are elements in the order of their times: a binary heap.
type timers[E interface{ timer() *timed }] []E

func (h timers[E]) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timer().place, h[j].timer().place = i+1, j+1
}

func (h timers[E]) less(i, j int) bool { return h[i].timer().at.Before(h[j].timer().at) }

// add puts an element under a time, also if it is there under another one.
func (h *timers[E]) add(e E, at time.Time) {
	h.remove(e)
	*h = append(*h, e)
	*e.timer() = timed{at: at, place: len(*h)}
	h.up(len(*h) - 1)
}

// remove takes an element out, if it is there.
func (h *timers[E]) remove(e E) {
	i := e.timer().place - 1
	if i < 0 {
		return
	}
	last := len(*h) - 1
	h.swap(i, last)
	var none E
	(*h)[last] = none
	*h = (*h)[:last]
	e.timer().place = 0
	if i < last {
		h.down(i)
		h.up(i)
	}
}

func (h timers[E]) up(i int) {
	for parent := (i - 1) / 2; i > 0 && h.less(i, parent); parent = (i - 1) / 2 {
		h.swap(i, parent)
		i = parent
	}
}

func (h timers[E]) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}
