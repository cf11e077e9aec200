package main

import (
	"encoding/json"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// A verdict is a vendor's view of the calls that arrived.
type verdict struct {
	Arrivals    int            `json:"arrivals"`        // of calls, also those that were refused
	Over        int            `json:"over"`            // calls that were refused with 429
	TooBig      int            `json:"too_big"`         // calls with too many records
	Bad         int            `json:"bad"`             // calls that were malformed
	Calls       map[string]int `json:"calls_by_option"` // that were accepted
	Records     int            `json:"records"`         // of these
	Unique      int            `json:"unique"`          // of the records
	Duplicates  int            `json:"duplicates"`      // of the records
	MostSliding int            `json:"most_sliding"`    // calls in any minute
	MostFixed   int            `json:"most_fixed"`      // calls in a minute of the clock, at each of the phases
	Seconds     float64        `json:"seconds"`         // from the first arrival to the last
	Stall       float64        `json:"stall_ms"`
}

// A ledger has the calls that arrived at a vendor.
type ledger struct {
	limit  int           // calls in any window
	window time.Duration // the minute of the vendor
	zero   time.Time

	mu   sync.Mutex
	at   []int64 // since 1970 by the clock at zero, in ns, sorted
	seed maphash.Seed
	seen map[uint64]struct{} // the hashes of the records
	way  program.Way
	sum  verdict
}

func newLedger(limit int, window time.Duration) *ledger {
	return &ledger{
		limit: limit, window: window, zero: time.Now(),
		seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}, sum: verdict{Calls: map[string]int{}},
	}
}

// arrive counts a call, and reports whether it is within the limit. A call that is not counts too. sent is
// the time at which it was sent, in µs since 1970, or 0.
func (l *ledger) arrive(now time.Time, sent int64) bool {
	at := l.zero.UnixNano() + int64(now.Sub(l.zero))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.way.Add(sent, at)
	i := len(l.at)
	for i > 0 && l.at[i-1] > at { // another call was faster, but arrived later
		i--
	}
	l.at = slices.Insert(l.at, i, at)
	if n := len(l.at); n > l.limit && l.at[n-1]-l.at[n-1-l.limit] < int64(l.window) {
		l.sum.Over++
		return false
	}
	return true
}

// accept counts the records of a call.
func (l *ledger) accept(option string, records []json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum.Calls[option]++
	l.sum.Records += len(records)
	for _, record := range records {
		l.seen[maphash.Bytes(l.seed, record)] = struct{}{}
	}
}

// refuse counts a call that is malformed, or too big.
func (l *ledger) refuse(tooBig bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if tooBig {
		l.sum.TooBig++
	} else {
		l.sum.Bad++
	}
}

// judge returns the verdict so far. The stall is that of the process, or the difference of the times that
// two calls were on the way, if that is longer.
func (l *ledger) judge(stall time.Duration) verdict {
	l.mu.Lock()
	v, at, window := l.sum, slices.Clone(l.at), int64(l.window)
	stall = max(stall, l.way.Skew())
	v.Calls = make(map[string]int, len(l.sum.Calls))
	for option, n := range l.sum.Calls {
		v.Calls[option] = n
	}
	v.Unique = len(l.seen)
	l.mu.Unlock()
	v.Arrivals, v.Duplicates, v.Stall = len(at), v.Records-v.Unique, program.Milliseconds(stall)
	if len(at) > 0 {
		v.Seconds = time.Duration(at[len(at)-1] - at[0]).Seconds()
	}
	v.MostSliding, v.MostFixed = program.MostSliding(at, window), program.MostFixed(at, window)
	return v
}
