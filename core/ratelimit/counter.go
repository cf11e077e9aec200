package ratelimit

import (
	"math/bits"
	"slices"
)

// counter is SlidingCounter. Its state is
//
//	start, before, used, time, cost, time, cost, ...
//
// when this window began, what was taken in the one before and in this one, and the
// reservations that lie ahead: nothing is taken before them.
type counter struct{ period int64 }

const counterHead = 3

// A counted is two windows as of a time.
type counted struct{ start, before, used int64 }

// roll goes on to a time. A window lasts to its end also if nothing is used of it, after
// a refund.
func (a counter) roll(c counted, t int64) counted {
	if t >= c.start && t < c.start+a.period {
		return c
	}
	if over := (t - c.start) / a.period; over > 0 {
		c.before, c.used = c.used, 0
		if over > 1 {
			c.before = 0
		}
		c.start += over * a.period
	}
	if c.before == 0 && c.used == 0 {
		c.start = t
	}
	return c
}

// fold is the state as of now, and the reservations that still lie ahead.
func (a counter) fold(s []int64, now int64) (c counted, ahead []int64) {
	if len(s) == 0 {
		return counted{start: now}, nil
	}
	c, ahead = counted{s[0], s[1], s[2]}, s[counterHead:]
	for len(ahead) > 0 && ahead[0] <= now {
		c = a.roll(c, ahead[0])
		c.used += ahead[1]
		ahead = ahead[2:]
	}
	return c, ahead
}

// at is the state as of now, without those.
func (a counter) at(s []int64, now int64) counted {
	c, _ := a.fold(s, now)
	return a.roll(c, now)
}

// next is the first time, now or later, at which one can take after all others, and
// the state then.
func (a counter) next(s []int64, now int64) (int64, counted) {
	if len(s) > counterHead {
		now = max(now, s[len(s)-2])
	}
	return now, a.at(s, now)
}

// share is room*period/of, rounded down and at most a period: so long before the
// end of a window the weight of what was taken before has come down to room.
func (a counter) share(room, of int64) int64 {
	hi, lo := bits.Mul64(uint64(room), uint64(a.period))
	if of <= room || hi >= uint64(of) {
		return a.period
	}
	q, _ := bits.Div64(hi, lo, uint64(of))
	return int64(q)
}

func (a counter) Earliest(l Limit, s []int64, now, cost int64) int64 {
	now, c := a.next(s, now)
	if room := l.Permits - c.used - cost; room >= 0 {
		return max(now, c.start+a.period-a.share(room, c.before))
	}
	return c.start + 2*a.period - a.share(l.Permits-cost, c.used)
}

func (a counter) Charge(_ Limit, s []int64, now, at, cost int64) []int64 {
	c, ahead := a.fold(s, now)
	if n := len(ahead); n > 0 && ahead[n-2] == at {
		ahead[n-1] += cost
	} else if at > now {
		if len(s) == 0 {
			c.start = at
		}
		ahead = append(ahead, at, cost)
	} else {
		c = a.roll(c, at)
		c.used += cost
	}
	return append(append(s[:0], c.start, c.before, c.used), ahead...)
}

func (a counter) Refund(_ Limit, s []int64, _, at, cost int64) []int64 {
	for i := counterHead; i < len(s); i += 2 {
		if s[i] == at {
			if s[i+1] -= cost; s[i+1] <= 0 {
				s = slices.Delete(s, i, i+2)
			}
			return s
		}
	}
	switch {
	case len(s) == 0:
	case at >= s[0]:
		s[2] -= min(cost, s[2])
	case at >= s[0]-a.period:
		s[1] -= min(cost, s[1])
	}
	return s
}

func (a counter) Available(l Limit, s []int64, now int64) int64 {
	if at, _ := a.next(s, now); at > now {
		return 0
	}
	c := a.at(s, now)
	hi, lo := bits.Mul64(uint64(c.before), uint64(c.start+a.period-now))
	weight, rest := bits.Div64(hi, lo, uint64(a.period)) // at most before: it fits
	return max(0, l.Permits-c.used-int64(weight)-int64(min(1, rest)))
}

func (a counter) FullAt(_ Limit, s []int64, now int64) int64 {
	switch _, c := a.next(s, now); {
	case c.used > 0:
		return c.start + 2*a.period
	case c.before > 0:
		return c.start + a.period
	}
	return now
}

// over is when a key can be dropped: when it is full and its window has ended.
func (a counter) over(l Limit, s []int64, now int64) int64 {
	if full := a.FullAt(l, s, now); full > now || len(s) == 0 {
		return full
	}
	if c, _ := a.fold(s, now); c.start <= now {
		return max(now, c.start+a.period)
	}
	return now
}

// taken is what was taken in this window and the one before, and ahead of them.
func (a counter) taken(s []int64, now int64) int64 {
	c := a.at(s, now)
	sum := c.before + c.used
	_, ahead := a.fold(s, now)
	for i := 1; i < len(ahead); i += 2 {
		sum += ahead[i]
	}
	return sum
}
