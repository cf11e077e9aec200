package timeout

import (
	"sync"
	"time"
)

// An idle limit is on each single read of a body. The zero value is none.
type idle struct {
	limit  time.Duration
	strike func() // what ends the read

	mu    sync.Mutex
	timer *time.Timer // nil before the first read
	since time.Time   // when the read began that is under way; zero while there is none
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

// end says that the read has ended.
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

// expire ends the read that is under way, if it has taken that long: the timer may
// have gone off for the one before.
func (i *idle) expire() {
	i.mu.Lock()
	late := !i.since.IsZero() && time.Since(i.since) >= i.limit
	i.mu.Unlock()
	if late {
		i.strike()
	}
}
