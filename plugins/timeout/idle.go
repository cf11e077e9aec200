package timeout

import (
	"sync"
	"time"
)

// An idle limits each single read of a body. The zero value has no limit.
type idle struct {
	limit  time.Duration
	strike func() // ends the read

	mu    sync.Mutex
	timer *time.Timer // nil before the first read
	since time.Time   // the start of the read in progress, or zero
}

// begin starts the time of a read.
func (i *idle) begin() {
	if i.limit == 0 {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.since = time.Now()
	if i.timer == nil {
		i.timer = time.AfterFunc(i.limit, i.expire)
	} else {
		i.timer.Reset(i.limit)
	}
}

// end ends the time of a read.
func (i *idle) end() {
	if i.limit == 0 {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.since = time.Time{}
	if i.timer != nil {
		i.timer.Stop()
	}
}

// expire ends the read in progress if it is over the limit: the timer may have fired for
// an earlier read.
func (i *idle) expire() {
	i.mu.Lock()
	late := !i.since.IsZero() && time.Since(i.since) >= i.limit
	i.mu.Unlock()
	if late {
		i.strike()
	}
}
