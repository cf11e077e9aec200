package escalating

import (
	"math/rand/v2"
	"sync"
	"time"
)

// A Telling vendor permits 100 calls in any second of its own clock, and asks the others to
// wait. It punishes nothing: it counts the calls that were sent in spite of an answer.
type Telling struct {
	mu       sync.Mutex
	random   *rand.Rand
	answered []time.Time // in the last second
	told     []pause
	counts   Told
}

// Told are the calls that a [Telling] vendor has seen.
type Told struct {
	Served, Refused int
	Inside          int // sent during a pause, more than 100ms after it was told
}

// A pause begins when its answer is written.
type pause struct{ from, until time.Time }

// NewTelling returns such a vendor.
func NewTelling(seed uint64) *Telling {
	return &Telling{random: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // a simulation
}

// Call is a call that arrives at once, and whose answer takes a while. wait is the pause
// that the vendor asks for, or 0.
func (v *Telling) Call() (wait time.Duration) {
	wait, answer := v.arrive(time.Now())
	time.Sleep(answer)
	if wait > 0 {
		now := time.Now()
		v.mu.Lock()
		v.told = append(v.told, pause{now, now.Add(wait)})
		v.mu.Unlock()
	}
	return wait
}

func (v *Telling) arrive(now time.Time) (wait, answer time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(v.told) > 0 && !v.told[0].until.After(now) {
		v.told = v.told[1:]
	}
	for _, p := range v.told {
		if now.Sub(p.from) > fastest {
			v.counts.Inside++
			break
		}
	}
	for len(v.answered) > 0 && now.Sub(v.answered[0]) >= second {
		v.answered = v.answered[1:]
	}
	if len(v.answered) < limit {
		v.answered = append(v.answered, now)
		v.counts.Served++
	} else {
		v.counts.Refused++
		wait = second
	}
	return wait, fastest + time.Duration(v.random.Int64N(int64(slowest-fastest)))
}

// Counts returns the calls so far.
func (v *Telling) Counts() Told {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.counts
}
