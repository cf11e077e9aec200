package escalating

import "time"

// A Verdict is a vendor's view of the calls that arrived, refused ones included. All times
// are real ones, and a second is that of the vendor.
type Verdict struct {
	Arrivals     int     `json:"arrivals"`
	Unique       int     `json:"unique"`
	Duplicates   int     `json:"duplicates"`
	MostSliding  int     `json:"most_sliding"` // in any second
	MostFixed    int     `json:"most_fixed"`   // in a second of the clock
	Seconds      float64 `json:"seconds"`      // from the first arrival to the last
	Trips        int     `json:"trips"`
	Escalations  int     `json:"escalations"`
	WorstPenalty float64 `json:"worst_penalty_s"`
}

// A judge counts arrivals.
type judge struct {
	window      time.Duration
	seen        map[string]struct{}
	first, last time.Time
	recent      []time.Time // those of the last window
	fixed       int64       // the window of the clock
	inFixed     int
	sum         Verdict
}

func (j *judge) arrival(now time.Time, n string) {
	if j.seen == nil {
		j.seen, j.first = map[string]struct{}{}, now
	}
	j.last = now
	j.sum.Arrivals++
	j.seen[n] = struct{}{}
	for len(j.recent) > 0 && now.Sub(j.recent[0]) >= j.window {
		j.recent = j.recent[1:]
	}
	j.recent = append(j.recent, now)
	j.sum.MostSliding = max(j.sum.MostSliding, len(j.recent))
	if fixed := now.UnixNano() / int64(j.window); fixed != j.fixed {
		j.fixed, j.inFixed = fixed, 0
	}
	j.inFixed++
	j.sum.MostFixed = max(j.sum.MostFixed, j.inFixed)
}

func (j *judge) verdict() Verdict {
	sum := j.sum
	sum.Unique = len(j.seen)
	sum.Duplicates = sum.Arrivals - sum.Unique
	sum.Seconds = j.last.Sub(j.first).Seconds()
	return sum
}
