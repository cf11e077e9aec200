package breaker

import "time"

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
// MaxTrials.
const indexBits = 10

// reserve takes a slot: a free one, or that of the oldest trial once it has had it
// for timeout. The result is 0 where there is none.
func (t *trials) reserve(now, timeout time.Duration) (trial uint64) {
	free, oldest := -1, -1
	for i, s := range t.slots {
		switch {
		case s.trial == 0:
			free = i
		case oldest < 0 || s.trial < t.slots[oldest].trial:
			oldest = i
		}
	}
	i := free
	switch {
	case t.calls+t.taken < len(t.slots):
		t.taken++
	case oldest >= 0 && now-t.slots[oldest].since >= timeout:
		i = oldest
	default:
		return 0
	}
	t.serial++
	t.slots[i] = slot{trial: t.serial<<indexBits | uint64(i), since: now}
	return t.slots[i].trial
}

// release frees the slot of a trial, and tells whether it still had it.
func (t *trials) release(trial uint64) bool {
	s := &t.slots[trial&(1<<indexBits-1)]
	if s.trial != trial {
		return false
	}
	*s = slot{}
	t.taken--
	return true
}

func (t *trials) add(failed, slow bool) {
	t.calls++
	t.counts.add(failed, slow, 1)
}

// certain tells whether the trials that are still to end can no longer change
// whether a rate is reached, and if so, whether one is.
func (t *trials) certain(r *rules) (reached, certain bool) {
	all, more := len(t.slots), len(t.slots)-t.calls
	if rate(t.failures, all) >= r.rate || rate(t.slow, all) >= r.slowRate {
		return true, true
	}
	return false, rate(t.failures+more, all) < r.rate && rate(t.slow+more, all) < r.slowRate
}

// clear begins another period. Serial numbers go on, so that a trial of an earlier
// period has no slot of this one.
func (t *trials) clear() {
	clear(t.slots)
	t.counts, t.taken = counts{}, 0
}
