package cooldown

import "fmt"

// Stats are the counters of a [Cooldown] and what there is at one moment.
type Stats struct {
	Holds         uint64 // holds that began; extending one is not counted
	Resumed       uint64 // times that the first call after a hold succeeded
	Waited        uint64 // calls that were admitted after a wait
	Rejected      uint64 // calls that were not admitted
	Canceled      uint64 // waits that ended by their context or by Close
	Overdue       uint64 // calls after a hold that took longer than ProbeTimeout; if they waited, they are in Waited too
	Evicted       uint64 // holds forgotten for MaxKeys
	StoreFailures uint64 // times that the Store became unavailable
	Keys          int    // keys in the table: held, on their way back, or not asked for since
	Waiting       int    // calls that wait
}

// String returns the stats in one line, as in "holds=2 resumed=1 waiting=0 waited=5 rejected=3".
func (s Stats) String() string {
	return fmt.Sprintf("holds=%d resumed=%d waiting=%d waited=%d rejected=%d", s.Holds, s.Resumed, s.Waiting, s.Waited, s.Rejected)
}

// Stats returns the counts so far.
func (c *Cooldown) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(c.now())
	s := c.stats
	s.Rejected, s.Keys = c.rejections.Load(), len(c.gates)
	return s
}
