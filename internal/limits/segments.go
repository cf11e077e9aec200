package limits

import (
	"math"
	"slices"
)

// A list is the common part of the algorithms whose state is a list: a head of so many numbers, and then times and costs in turn.
type list struct {
	period, permits int64
	head            int
}

func (a list) fits(_ State, now, at, _ int64) bool { return (at-now)/reserveAhead <= a.period }
func (a list) fresh(int64) State                   { return State{} }
func (a list) touch(s State, _ int64) State        { return s }

// due is the time of the last entry, or now if that is later.
func (a list) due(s State, now int64) int64 {
	if n := len(s.List); n > a.head {
		return max(now, s.List[n-2])
	}
	return now
}

// put charges permits at a time, one capacity after another, in steps.
func (a list) put(charge func(s State, now, own, at, cost int64) (State, uint64), step, now, at, num, den int64) (s State, ok bool) {
	used := ceilDiv(num, den)
	ahead := max(0, used-1) / a.permits
	if ahead > math.MaxInt64/4/a.period {
		return s, false
	}
	last := at + ahead*a.period
	if last -= last % step; last < at && at > now {
		last += step
	}
	if n := used - ahead*a.permits; n > 0 || last > now {
		s, _ = charge(s, now, 0, last, n)
	}
	return s, true
}

// segments are a log of the takes within a period, each at the beginning of its
// step: a SlidingWindow with a segment for a step, a SlidingLog with a nanosecond. A list is
//
//	first, sum, time, cost, time, cost, ...
//
// where first is the place of the oldest entry that counts, the entries are in the order of
// their times, and sum is the cost of those from first on. Reservations are entries that lie
// ahead: nothing is taken before them.
type segments struct {
	list
	step int64
}

const segmentsHead = 2

// live is the place of the first entry that counts now, and the cost of all that do.
func (a segments) live(s []int64, now int64) (first int, sum int64) {
	if len(s) == 0 {
		return 0, 0
	}
	first, sum = int(s[0]), s[1]
	for first < len(s) && s[first]+a.period <= now {
		sum -= s[first+1]
		first += 2
	}
	return first, sum
}

// turn is the first time at which a cost can be taken.
func (a segments) turn(s State, now, cost int64) int64 {
	at := a.due(s, now)
	first, sum := a.live(s.List, at)
	for ; sum+cost > a.permits && first < len(s.List); first += 2 {
		sum -= s.List[first+1]
		at = max(at, s.List[first]+a.period)
	}
	return at
}

func (a segments) look(s State, now, cost int64) Raw {
	r := Raw{0, a.turn(s, now, cost), now, now}
	if a.due(s, now) == now {
		_, sum := a.live(s.List, now)
		r[0] = max(0, a.permits-sum)
	}
	if r[0] < a.permits {
		r[2] = a.turn(s, now, r[0]+1)
		r[3] = max(now, s.List[len(s.List)-2]+a.period)
	}
	return r
}

func (a segments) used(s State, at int64) (num, den int64) {
	_, num = a.live(s.List, at)
	return num, 1
}

func (a segments) put(now, at, num, den int64) (State, bool) {
	return a.list.put(a.charge, a.step, now, at, num, den)
}

// charge counts from the beginning of a step or, of a charge that lies ahead, from the end of one: nothing is taken before
// it.
func (a segments) charge(st State, now, _, at, cost int64) (State, uint64) {
	s := st.List
	if len(s) == 0 {
		s = append(make([]int64, 0, segmentsHead+2), segmentsHead, 0)
	}
	first, sum := a.live(s, now)
	if first*2 > len(s)+segmentsHead { // more is over than counts
		s = slices.Delete(s, segmentsHead, first)
		first = segmentsHead
		if cap(s) > 4*(len(s)+segmentsHead) {
			s = slices.Clone(s) // release the memory of a busier time
		}
	}
	s[0], s[1] = int64(first), sum+cost
	if rest := at % a.step; rest > 0 {
		if at > now {
			at += a.step
		}
		at -= rest
	}
	if n := len(s); n > first && s[n-2] >= at {
		s[n-1] += cost
	} else {
		s = append(s, at, cost)
	}
	return State{List: s}, uint64(s[len(s)-2])
}

func (a segments) refund(st State, now, cost int64, receipt uint64, _ int64) (State, bool) {
	s, at := st.List, int64(receipt)
	first, _ := a.live(s, now)
	for i := len(s) - 2; i >= max(first, segmentsHead); i -= 2 {
		if s[i] == at {
			back := min(cost, s[i+1])
			s[i+1] -= back
			s[1] -= back
			break
		}
	}
	for len(s) > segmentsHead && s[len(s)-1] == 0 {
		s = s[:len(s)-2]
	}
	if len(s) > 0 {
		s[0] = min(s[0], int64(len(s)))
	}
	return State{List: s}, true
}

func (a segments) over(s State, now int64) int64 { return a.look(s, now, 0)[full] }

func (a segments) recovery(int64) int64 { return a.period }
