package limits

import "slices"

// counter is a SlidingCounter. A list is
//
//	start, before, used, time, cost, time, cost, ...
//
// the start of this window, the permits taken in the one before and in this one, and the
// reservations that lie ahead: nothing is taken before them.
type counter struct{ list }

const counterHead = 3

// A counted is two windows as of a time.
type counted struct{ start, before, used int64 }

// roll goes on to a time. A window lasts to its end also if nothing is used of it, after a
// refund.
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

// last is the first time, now or later, at which permits can be taken after all others, and the windows then.
func (a counter) last(s State, now int64) (int64, counted) {
	at := a.due(s, now)
	c, _ := a.fold(s.List, at)
	return at, a.roll(c, at)
}

// until is how long after the beginning of a window the weight of earlier takes has come down to room.
func (a counter) until(room, of int64) int64 {
	if of <= room {
		return 0
	}
	after, _ := MulDiv(of-room, a.period, of, a.period)
	return after
}

func (a counter) look(s State, now, cost int64) Raw {
	at, c := a.last(s, now)
	left := int64(0)
	if at == now {
		left = max(0, a.permits-a.weigh(c, now))
	}
	return rawOf(a.permits, left, now, cost, func(cost int64) int64 {
		if room := a.permits - c.used - cost; room >= 0 {
			return max(at, c.start+a.until(room, c.before))
		}
		return c.start + a.period + a.until(a.permits-cost, c.used)
	})
}

// weigh is how many permits are used at a time in the window.
func (a counter) weigh(c counted, at int64) int64 {
	weight, _ := MulDiv(c.before, c.start+a.period-at, a.period, c.before)
	return c.used + weight
}

func (a counter) used(s State, at int64) (num, den int64) {
	_, c := a.last(s, at)
	return a.weigh(c, at), 1
}

func (a counter) put(now, at, num, den int64) (State, bool) {
	return a.list.put(a.charge, 1, now, at, num, den)
}

func (a counter) charge(st State, now, _, at, cost int64) (State, uint64) {
	s := st.List
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
	return State{List: append(append(s[:0], c.start, c.before, c.used), ahead...)}, uint64(at)
}

func (a counter) refund(st State, _, cost int64, receipt uint64, _ int64) (State, bool) {
	s, at := st.List, int64(receipt)
	for i := counterHead; i < len(s); i += 2 {
		if s[i] == at {
			if s[i+1] -= cost; s[i+1] <= 0 {
				s = slices.Delete(s, i, i+2)
			}
			return State{List: s}, true
		}
	}
	switch {
	case len(s) == 0:
	case at >= s[0]:
		s[2] -= min(cost, s[2])
	case at >= s[0]-a.period:
		s[1] -= min(cost, s[1])
	}
	return State{List: s}, true
}

// over is when all has come back and the window has ended.
func (a counter) over(s State, now int64) int64 {
	if full := a.look(s, now, 0)[full]; full > now || len(s.List) == 0 {
		return full
	}
	if c, _ := a.fold(s.List, now); c.start <= now {
		return max(now, c.start+a.period)
	}
	return now
}

func (a counter) recovery(int64) int64 { return 2 * a.period }
