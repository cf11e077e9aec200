package main

import (
	"maps"
	"slices"
	"time"
)

// A hand has the calls of one worker that are not finished.
type hand struct {
	calls   map[int]stage
	waiting int // of the calls
	sent    int // likewise
}

type stage uint8

const (
	waiting stage = iota
	parked        // waiting for long
	sent
)

func (h *hand) move(n int, to stage) {
	h.count(h.calls[n], -1)
	h.calls[n] = to
	h.count(to, 1)
}

func (h *hand) remove(n int) {
	h.count(h.calls[n], -1)
	delete(h.calls, n)
}

func (h *hand) count(s stage, d int) {
	switch s {
	case waiting:
		h.waiting += d
	case sent:
		h.sent += d
	case parked:
	}
}

// A dealer has all calls, and gives their numbers to hands. Campaigns take turns.
type dealer struct {
	config
	ahead   int // calls that may wait in one hand
	sockets int // calls that may be sent in one hand

	next     int              // the first number that no hand had
	returned []int            // numbers of hands whose workers have ended
	repeated map[int]struct{} // those of inFlight
	inFlight []int            // numbers that were sent when their worker ended
	served   int
	failed   int
	lost     int // in flight twice
	runs     int // of handlers
	retried  int // of these, not the first attempt
	done     map[int]struct{}
	row      int    // calls that failed, since one was served
	first    string // the error of the first one that failed
	ends     []end
}

// An end is the time at which a call was served, since the start.
type end struct {
	at       time.Duration
	campaign int
}

func newDealer(cfg config) *dealer {
	return &dealer{
		config: cfg, repeated: map[int]struct{}{}, done: map[int]struct{}{},
		ahead:   min(max(10, cfg.cps/10), 2000), // 2,000 numbers fit in a pipe
		sockets: max(100, 2*cfg.cps/cfg.workers),
	}
}

func (d *dealer) newHand() *hand { return &hand{calls: map[int]stage{}} }

// hurry is the speed of the numbers of the article, of the limit. Its scheduler is not exact: if the
// numbers came as fast as calls are permitted, no call would be delayed.
const hurry = 4

// due returns how many numbers can be given, so long after the start.
func (d *dealer) due(at time.Duration) int {
	switch {
	case d.engine == "asynq": // a worker takes them from Redis
		return 0
	case d.algorithm != "article":
		return d.total()
	}
	return min(d.total(), int(hurry*float64(d.cps)*at.Seconds()))
}

// deal returns numbers, several together, which are in the hand then.
func (d *dealer) deal(h *hand, at time.Duration) (numbers []int) {
	if h.waiting > d.ahead*3/4 {
		return nil
	}
	for h.waiting < d.ahead && h.sent < d.sockets {
		var n int
		switch {
		case len(d.returned) > 0:
			n, d.returned = d.returned[0], d.returned[1:]
		case d.next < d.due(at):
			n = d.next
			d.next++
		default:
			return numbers
		}
		h.calls[n] = waiting
		h.waiting++
		numbers = append(numbers, n)
	}
	return numbers
}

// note is a step of a call.
func (d *dealer) note(h *hand, at time.Duration, word string, n int, why string) {
	if word == "run" {
		d.run(h, n, why)
	}
	if _, ok := h.calls[n]; !ok {
		return
	}
	switch word {
	case "later":
		h.move(n, parked)
	case "started":
		h.move(n, sent)
	case "done":
		h.remove(n)
		d.row = 0
		if d.ended(n) {
			d.served++
			d.ends = append(d.ends, end{at, n % d.campaigns})
		}
	case "failed":
		h.remove(n)
		if d.ended(n) {
			d.failed++
		}
		if d.row++; d.first == "" {
			d.first = why
		}
	}
}

// ended notes the end of a call, and reports whether it is the first one: a worker can be killed before
// the engine has noted the end.
func (d *dealer) ended(n int) bool {
	_, twice := d.done[n]
	d.done[n] = struct{}{}
	return !twice
}

// run notes that the handler of a call begins.
func (d *dealer) run(h *hand, n int, attempt string) {
	d.runs++
	if attempt != "1" {
		d.retried++
	}
	if _, ok := h.calls[n]; !ok {
		h.calls[n] = waiting
		h.waiting++
	}
}

// fold takes back the calls of a hand whose worker has ended.
func (d *dealer) fold(h *hand) {
	for _, n := range slices.Sorted(maps.Keys(h.calls)) {
		_, again := d.repeated[n]
		switch {
		case h.calls[n] == sent && again && d.engine != "asynq":
			d.lost++
			continue
		case h.calls[n] == sent && !again:
			d.repeated[n] = struct{}{}
			d.inFlight = append(d.inFlight, n)
		}
		if d.engine == "asynq" {
			continue // it runs the job again
		}
		d.returned = append(d.returned, n)
	}
	*h = *d.newHand()
}

// finished reports whether no call is left.
func (d *dealer) finished() bool { return d.served+d.failed+d.lost == d.total() }

// halfTime returns the parts that were served at half of the time, of the campaigns with the smallest
// and the largest.
func (d *dealer) halfTime() (worst, best float64) {
	served := make([]int, d.campaigns)
	if len(d.ends) > 0 {
		half := d.ends[len(d.ends)-1].at / 2
		for _, e := range d.ends {
			if e.at <= half {
				served[e.campaign]++
			}
		}
	}
	return float64(slices.Min(served)) / float64(d.calls), float64(slices.Max(served)) / float64(d.calls)
}
