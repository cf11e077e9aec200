package breaker

import (
	"math"
	"time"
)

// trials are the calls of one half-open period. Those that run have a slot each.
type trials struct {
	counts // ended, not ignored
	slots  []slot
	taken  int // slots taken
	serial uint64
}

// A slot belongs to one running trial; trial is 0 when it is free.
type slot struct {
	trial uint64
	since time.Duration
}

// indexBits of the number of a trial are the index of its slot. They hold
// maxTrials.
const indexBits = 10

// never is a time that does not come.
const never = math.MaxInt64

// until is when a trial loses its slot.
func (s slot) until(timeout time.Duration) time.Duration {
	if s.trial == 0 || s.since > never-timeout {
		return never
	}
	return s.since + timeout
}

// scan looks for a free slot and for that of the oldest trial. They are -1 where
// there is none.
func (t *trials) scan() (free, oldest int) {
	free, oldest = -1, -1
	for i, s := range t.slots {
		switch {
		case s.trial == 0:
			free = i
		case oldest < 0 || s.trial < t.slots[oldest].trial:
			oldest = i
		}
	}
	return free, oldest
}

// full reports whether no more trials are admitted, and if so, until when.
func (t *trials) full(oldest int, timeout time.Duration) (until time.Duration, full bool) {
	if t.calls+t.taken < len(t.slots) {
		return 0, false
	}
	if oldest < 0 {
		return never, true
	}
	return t.slots[oldest].until(timeout), true
}

// reserve takes a slot: a free one, or that of the oldest trial once it has had it
// for timeout. If there is none, trial is 0, and until is when the next one is free.
func (t *trials) reserve(now, timeout time.Duration) (trial uint64, until time.Duration) {
	i, oldest := t.scan()
	until, full := t.full(oldest, timeout)
	switch {
	case !full:
		t.taken++
	case until <= now:
		i = oldest
	default:
		return 0, until
	}
	t.serial++
	t.slots[i] = slot{trial: t.serial<<indexBits | uint64(i), since: now}
	return t.slots[i].trial, 0
}

// release frees the slot of a trial, and reports whether the trial ended in time: it
// still had its slot, and for less than timeout.
func (t *trials) release(trial uint64, now, timeout time.Duration) bool {
	s := &t.slots[trial&(1<<indexBits-1)]
	if s.trial != trial {
		return false
	}
	inTime := now < s.until(timeout)
	*s = slot{}
	t.taken--
	return inTime
}

func (t *trials) add(failed, slow bool) {
	t.calls++
	t.counts.add(failed, slow, 1)
}

// clear begins another period. Serial numbers go on, so that a trial of an earlier
// period has no slot of this one.
func (t *trials) clear() {
	clear(t.slots)
	t.counts, t.taken = counts{}, 0
}
