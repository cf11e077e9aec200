package ratelimit

// Stats are the counters of a [Limiter] and of those derived from it by With.
type Stats struct {
	Allowed     uint64 // decisions that granted permits
	Rejected    uint64 // decisions that refused
	Canceled    uint64 // waits that ended before their time
	StoreErrors uint64 // operations that the store could not decide
	HookPanics  uint64 // hooks that panicked
	Waiting     int    // waits now
	Keys        int    // keys held; -1 where the store does not tell
	Evicted     uint64 // keys dropped though they owed something
}

// Stats returns the counters as they are now.
func (l *Limiter) Stats() Stats {
	s := Stats{
		Allowed: l.allowed.Load(), Rejected: l.rejected.Load(), Canceled: l.canceled.Load(), StoreErrors: l.storeErrors.Load(),
		HookPanics: l.panics.Count(), Waiting: int(l.waiting.Load()), Keys: -1,
	}
	if l.own != nil {
		allowed, rejected := l.memory.counts()
		s.Allowed, s.Rejected = s.Allowed+allowed, s.Rejected+rejected
	}
	if t := l.memory; t != nil {
		s.Keys, s.Evicted = int(t.keys.Load()), t.evicted.Load()
	}
	return s
}

// Observe adds hooks while the limiter is in use; cancel takes them out again.
func (l *Limiter) Observe(h Hooks) (cancel func()) { return l.hooks.Add(h) }
