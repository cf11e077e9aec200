package demo

import (
	"hash/maphash"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

const sentHeader = "X-Sent" // when a call was sent, in µs since 1970

// Arrivals are the calls that arrived at a vendor, by its own clock.
type Arrivals struct {
	window time.Duration // of the limit
	zero   time.Time

	mu          sync.Mutex
	at          []int64 // since 1970 by the clock at zero, in ns, sorted
	least, most int64   // µs on the way, with the difference of the clocks
	known       bool    // whether a call has said when it was sent
	seed        maphash.Seed
	seen        map[uint64]struct{} // the hashes of the keys
	keys        int
}

// NewArrivals returns those of a vendor whose limit has this window.
func NewArrivals(window time.Duration) *Arrivals {
	return &Arrivals{window: window, zero: time.Now(), seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
}

// Add counts a call that arrives now, and reports whether the window that ends with the latest arrival has at most limit.
func (a *Arrivals) Add(now time.Time, h http.Header, limit int) bool {
	at := a.zero.UnixNano() + int64(now.Sub(a.zero))
	sent, _ := strconv.ParseInt(h.Get(sentHeader), 10, 64) // a vendor's client need not send it
	a.mu.Lock()
	defer a.mu.Unlock()
	if way := at/1000 - sent; sent != 0 {
		if !a.known {
			a.least, a.most, a.known = way, way, true
		}
		a.least, a.most = min(a.least, way), max(a.most, way)
	}
	i := len(a.at)
	for i > 0 && a.at[i-1] > at { // another call was faster, but arrived later
		i--
	}
	a.at = slices.Insert(a.at, i, at)
	n := len(a.at)
	return n <= limit || a.at[n-1]-a.at[n-1-limit] >= int64(a.window)
}

// Key counts the key of a call, or of a part of it. Equal ones are duplicates.
func (a *Arrivals) Key(key []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys++
	a.seen[maphash.Bytes(a.seed, key)] = struct{}{}
}

// A Verdict is a vendor's view of the calls that arrived.
type Verdict struct {
	Arrivals    int     `json:"arrivals"`
	Unique      int     `json:"unique"`
	Duplicates  int     `json:"duplicates"`
	MostSliding int     `json:"most_sliding"` // in any window
	MostFixed   int     `json:"most_fixed"`   // in a window of the clock, at each of the phases
	Seconds     float64 `json:"seconds"`      // from the first arrival to the last
	Stall       float64 `json:"stall_ms"`
}

// Judge returns the verdict so far. The stall is that of the process, or the difference of the times that two calls were
// on the way, if that is longer.
func (a *Arrivals) Judge(stall time.Duration) Verdict {
	a.mu.Lock()
	at, unique, keys := slices.Clone(a.at), len(a.seen), a.keys
	stall = max(stall, time.Duration(a.most-a.least)*time.Microsecond)
	a.mu.Unlock()
	v := Verdict{
		Arrivals: len(at), Unique: unique, Duplicates: keys - unique, Stall: Milliseconds(stall),
		MostSliding: mostSliding(at, int64(a.window)), MostFixed: mostFixed(at, int64(a.window)),
	}
	if len(at) > 0 {
		v.Seconds = time.Duration(at[len(at)-1] - at[0]).Seconds()
	}
	return v
}

// mostSliding returns the number of the times, which are sorted, in the fullest window. A window is half-open.
func mostSliding(at []int64, window int64) (most int) {
	first := 0
	for i, t := range at {
		for t-at[first] >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

const phases = 20 // at which the windows of the clock can begin

// mostFixed returns the same for the windows of the clock, which can begin at 20 phases.
func mostFixed(at []int64, window int64) (most int) {
	for phase := range int64(phases) {
		var current int64
		n := 0
		for _, t := range at {
			if w := (t - phase*window/phases) / window; w != current {
				current, n = w, 0
			}
			n++
			most = max(most, n)
		}
	}
	return most
}
