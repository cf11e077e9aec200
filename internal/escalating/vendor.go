// Package escalating simulates vendors that punish haste, for tests and demos of outbound/gate.
package escalating

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// The vendor permits limit calls in any second. One more is a trip: a pause begins. A call
// during the pause doubles it.
const (
	limit      = 100
	second     = time.Second
	firstPause = 15 * time.Second
	longest    = 15 * time.Minute
	fastest    = 100 * time.Millisecond // of a call and its answer
	slowest    = 300 * time.Millisecond
)

// A Vendor is such a vendor.
type Vendor struct {
	scale float64
	grace time.Duration

	mu          sync.Mutex
	random      *rand.Rand
	answered    []time.Time // in the last second
	trip, until time.Time
	pause       time.Duration
	arrivals    []time.Time
	seen        map[string]bool
	sum         Verdict
}

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

// New returns a vendor. Calls that arrive within grace of a trip are pardoned: they can
// have been on their way. All times of the vendor, grace included, are divided by scale.
func New(grace time.Duration, scale float64) *Vendor {
	v := &Vendor{scale: scale, random: rand.New(rand.NewPCG(1, 2)), seen: map[string]bool{}} //nolint:gosec // a simulation
	v.grace = v.scaled(grace)
	return v
}

func (v *Vendor) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / v.scale)
}

// Call is the call n, from its sending to its answer. Half of the time is over when it
// arrives. If the vendor refuses it, wait is the rest of the pause at that moment; otherwise
// it is 0. The error is the cause of ctx.
func (v *Vendor) Call(ctx context.Context, n string) (wait time.Duration, err error) {
	v.mu.Lock()
	half := v.scaled(fastest+time.Duration(v.random.Int64N(int64(slowest-fastest)))) / 2
	v.mu.Unlock()
	if err := sleep(ctx, half); err != nil {
		return 0, err
	}
	wait = v.arrive(time.Now(), n)
	return wait, sleep(ctx, half)
}

// Verdict returns the vendor's view of all calls so far.
func (v *Vendor) Verdict() Verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	sum, first, fixed := v.sum, 0, map[int64]int{}
	for i, at := range v.arrivals {
		for at.Sub(v.arrivals[first]) >= v.scaled(second) {
			first++
		}
		window := at.UnixNano() / int64(v.scaled(second))
		fixed[window]++
		sum.MostSliding, sum.MostFixed = max(sum.MostSliding, i-first+1), max(sum.MostFixed, fixed[window])
		sum.Seconds = at.Sub(v.arrivals[0]).Seconds()
	}
	sum.Arrivals, sum.Unique = len(v.arrivals), len(v.seen)
	sum.Duplicates = sum.Arrivals - sum.Unique
	return sum
}

func (v *Vendor) arrive(now time.Time, n string) (wait time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.arrivals, v.seen[n] = append(v.arrivals, now), true
	if now.Before(v.until) {
		if now.Sub(v.trip) > v.grace {
			v.sum.Escalations++
			v.hold(now, min(2*v.pause, v.scaled(longest)))
		}
		return v.until.Sub(now)
	}
	for len(v.answered) > 0 && now.Sub(v.answered[0]) >= v.scaled(second) {
		v.answered = v.answered[1:]
	}
	if len(v.answered) >= limit {
		v.sum.Trips++
		v.trip = now
		v.hold(now, v.scaled(firstPause))
		return v.pause
	}
	v.answered = append(v.answered, now)
	return 0
}

func (v *Vendor) hold(now time.Time, pause time.Duration) {
	v.pause, v.until = pause, now.Add(pause)
	v.sum.WorstPenalty = max(v.sum.WorstPenalty, pause.Seconds())
}

func sleep(ctx context.Context, d time.Duration) error {
	over, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-over.Done()
	return context.Cause(ctx)
}
