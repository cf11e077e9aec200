package demo

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const sentHeader = "X-Sent" // when a call was sent, in µs since 1970

// A Verdict is a vendor's view of the calls that arrived.
type Verdict struct {
	Arrivals    int     `json:"arrivals"`
	Unique      int     `json:"unique"`
	Duplicates  int     `json:"duplicates"`
	MostSliding int     `json:"most_sliding"` // in any window
	MostFixed   int     `json:"most_fixed"`   // in a window of the clock
	Seconds     float64 `json:"seconds"`      // from the first arrival to the last
	Stall       float64 `json:"stall_ms"`
}

// Arrivals are the calls that arrived at a vendor, by its own clock.
type Arrivals struct {
	stall  Stall
	window time.Duration // of the limit

	mu          sync.Mutex
	sum         Verdict
	first       time.Time
	recent      []time.Time // of the last window
	fixed       int64       // the window of the clock
	inFixed     int
	least, most int64               // µs on the way, with the difference of the clocks; 0 if no call has said when it was sent
	seen        map[string]struct{} // keys
}

// NewArrivals returns those of a vendor whose limit has this window. They measure the stall of the process until ctx ends.
func NewArrivals(ctx context.Context, window time.Duration) *Arrivals {
	a := &Arrivals{window: window, seen: map[string]struct{}{}}
	go a.stall.Watch(ctx)
	return a
}

// Add counts a call that arrives now, and returns the number of calls in the window that ends with it.
func (a *Arrivals) Add(h http.Header) (inWindow int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if sent, err := strconv.ParseInt(h.Get(sentHeader), 10, 64); err == nil { // a vendor's client need not send it
		way := now.UnixMicro() - sent
		if a.least == 0 && a.most == 0 {
			a.least, a.most = way, way
		}
		a.least, a.most = min(a.least, way), max(a.most, way)
	}
	if a.sum.Arrivals++; a.sum.Arrivals == 1 {
		a.first = now
	}
	a.sum.Seconds = now.Sub(a.first).Seconds()
	for len(a.recent) > 0 && now.Sub(a.recent[0]) >= a.window {
		a.recent = a.recent[1:]
	}
	a.recent = append(a.recent, now)
	if fixed := now.UnixNano() / int64(a.window); fixed != a.fixed {
		a.fixed, a.inFixed = fixed, 0
	}
	a.inFixed++
	a.sum.MostSliding, a.sum.MostFixed = max(a.sum.MostSliding, len(a.recent)), max(a.sum.MostFixed, a.inFixed)
	return len(a.recent)
}

// Key counts the key of a call, or of a part of it. Equal ones are duplicates.
func (a *Arrivals) Key(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := len(a.seen)
	a.seen[key] = struct{}{}
	a.sum.Unique = len(a.seen)
	a.sum.Duplicates += 1 - (a.sum.Unique - before)
}

// Judge returns the verdict so far. The stall is that of the process, or the difference of the times that two calls were
// on the way, if that is longer.
func (a *Arrivals) Judge() Verdict {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.sum
	v.Stall = Milliseconds(max(a.stall.Duration(), time.Duration(a.most-a.least)*time.Microsecond))
	return v
}
