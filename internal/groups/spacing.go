package groups

import (
	"sync"
	"time"
)

// LongestHold is the time after which a vendor is asked again whether a hold is over, so that gate.Gate.Resume is soon felt.
const LongestHold = 10 * time.Second

const spaced = 20 * time.Millisecond

// A Spacing spreads what waits for longer than LongestHold: it is looked at before its time is over, but by one process no more than 50
// times a second, however many jobs wait for a key that is held.
type Spacing struct {
	mu   sync.Mutex
	next time.Time
}

// Wait returns the time until the next look at what has to wait.
func (s *Spacing) Wait(wait time.Duration) time.Duration {
	if wait <= LongestHold {
		return wait
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	d := max(s.next.Add(spaced).Sub(now), LongestHold)
	if d >= wait {
		return wait
	}
	s.next = now.Add(d)
	return d
}
