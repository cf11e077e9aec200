package ratelimit

import "slices"

// sliding is the log of what was taken within a period, each take at the beginning
// of its step: SlidingWindow with a segment for a step, SlidingLog with a
// nanosecond. Its state is
//
//	first, sum, time, cost, time, cost, ...
//
// where first is the place of the oldest entry that counts, the entries are in the
// order of their times, and sum is the cost of those from first on. Reservations are
// entries that lie ahead: nothing is taken before them.
type sliding struct{ step, period int64 }

const slidingHead = 2

// live is the place of the first entry that counts now, and the cost of all that do.
func (a sliding) live(s []int64, now int64) (first int, sum int64) {
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

// last is the time of the last entry, or now if that is later.
func (a sliding) last(s []int64, now int64) int64 {
	if len(s) > slidingHead {
		return max(now, s[len(s)-2])
	}
	return now
}

func (a sliding) Earliest(l Limit, s []int64, now, cost int64) int64 {
	at := a.last(s, now)
	first, sum := a.live(s, at)
	for ; sum+cost > l.Permits; first += 2 {
		sum -= s[first+1]
		at = max(at, s[first]+a.period)
	}
	return at
}

func (a sliding) Charge(_ Limit, s []int64, now, at, cost int64) []int64 {
	if len(s) == 0 {
		s = append(make([]int64, 0, slidingHead+2), slidingHead, 0)
	}
	first, sum := a.live(s, now)
	if first*2 > len(s)+slidingHead { // more is over than counts
		s = slices.Delete(s, slidingHead, first)
		first = slidingHead
		if cap(s) > 4*(len(s)+slidingHead) {
			s = slices.Clone(s) // give back what a busier time has needed
		}
	}
	s[0], s[1] = int64(first), sum+cost
	at -= at % a.step
	if n := len(s); n > first && s[n-2] >= at {
		s[n-1] += cost
		return s
	}
	return append(s, at, cost)
}

func (a sliding) Refund(_ Limit, s []int64, now, at, cost int64) []int64 {
	first, _ := a.live(s, now)
	at -= at % a.step
	for i := len(s) - 2; i >= max(first, slidingHead); i -= 2 {
		if s[i] == at {
			back := min(cost, s[i+1])
			s[i+1] -= back
			s[1] -= back
			break
		}
	}
	for len(s) > slidingHead && s[len(s)-1] == 0 {
		s = s[:len(s)-2]
	}
	if len(s) > 0 {
		s[0] = min(s[0], int64(len(s)))
	}
	return s
}

func (a sliding) Available(l Limit, s []int64, now int64) int64 {
	if a.last(s, now) > now {
		return 0
	}
	_, sum := a.live(s, now)
	return max(0, l.Permits-sum)
}

func (a sliding) FullAt(_ Limit, s []int64, now int64) int64 {
	if len(s) <= slidingHead {
		return now
	}
	return s[len(s)-2] + a.period
}

// taken is the cost of all entries that count.
func (a sliding) taken(s []int64, now int64) int64 {
	_, sum := a.live(s, now)
	return sum
}
