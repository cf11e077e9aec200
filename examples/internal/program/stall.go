package program

import (
	"context"
	"sync/atomic"
	"time"
)

// A Stall is the longest time by which a timer of this process was late: it had no CPU, or was stopped.
type Stall struct{ longest atomic.Int64 }

const beat = 5 * time.Millisecond

// Watch measures until ctx ends.
func (s *Stall) Watch(ctx context.Context) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for last := time.Now(); ctx.Err() == nil; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
		now := time.Now()
		if late := now.Sub(last) - beat; int64(late) > s.longest.Load() {
			s.longest.Store(int64(late))
		}
		last = now
	}
}

// Duration returns the longest time so far.
func (s *Stall) Duration() time.Duration { return time.Duration(s.longest.Load()) }
