package main

import (
	"slices"
	"sync"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

const second = int64(time.Second)

// A verdict is a vendor's view of the calls that arrived.
type verdict struct {
	Arrivals    int     `json:"arrivals"`
	Unique      int     `json:"unique"`
	Duplicates  int     `json:"duplicates"`
	MostSliding int     `json:"most_sliding"` // in any second
	MostFixed   int     `json:"most_fixed"`   // in a second of the clock, at each of the phases
	Seconds     float64 `json:"seconds"`      // from the first arrival to the last
	Stall       float64 `json:"stall_ms"`
}

// arrivals are the calls that arrived.
type arrivals struct {
	zero time.Time

	mu   sync.Mutex
	at   []int64 // since 1970 by the clock at zero, in ns
	seen map[string]struct{}
	way  program.Way
}

func newArrivals() *arrivals { return &arrivals{zero: time.Now(), seen: map[string]struct{}{}} }

// add counts a call. sent is the time at which it was sent, in µs, or 0.
func (a *arrivals) add(now time.Time, key string, sent int64) {
	at := a.zero.UnixNano() + int64(now.Sub(a.zero))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.way.Add(sent, at)
	a.at = append(a.at, at)
	a.seen[key] = struct{}{}
}

// judge returns the verdict so far. The stall is that of the process, or the difference of the times
// that two calls were on the way, if that is longer.
func (a *arrivals) judge(stall time.Duration) verdict {
	a.mu.Lock()
	at, unique, way := slices.Clone(a.at), len(a.seen), a.way.Skew()
	a.mu.Unlock()
	v := verdict{Arrivals: len(at), Unique: unique, Duplicates: len(at) - unique, Stall: program.Milliseconds(max(stall, way))}
	if len(at) == 0 {
		return v
	}
	slices.Sort(at)
	v.Seconds = time.Duration(at[len(at)-1] - at[0]).Seconds()
	v.MostSliding, v.MostFixed = program.MostSliding(at, second), program.MostFixed(at, second)
	return v
}
