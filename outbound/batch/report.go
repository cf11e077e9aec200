package batch

import "github.com/gresil/gresil/internal/registry"

// Stats are the counters of a Batcher in this process.
type Stats struct {
	Added   uint64 // records, including those that replaced one with the same key
	Calls   uint64 // calls of Send
	Limited uint64 // calls that a limit refused, or that were not made
	Split   uint64 // calls that were halved
	Sent    uint64 // records that were sent successfully
	Failed  uint64 // records that have failed
}

// Stats returns the counts so far.
func (b *Batcher[T, R]) Stats() Stats {
	return Stats{
		Added: b.added.Load(), Calls: b.calls.Load(), Limited: b.limited.Load(), Split: b.split.Load(), Sent: b.sent.Load(), Failed: b.failed.Load(),
	}
}

func (b *Batcher[T, R]) figures() (f registry.Figures) {
	s := b.Stats()
	f.Count("calls_total", "Calls of Send.", s.Calls)
	f.Count("limited_total", "Calls that a limit refused, or that were not made; they use no attempt.", s.Limited)
	f.Count("splits_total", "Calls that were halved, after a permanent error, the ends of their processes, or a lower MaxRecords.", s.Split)
	f.Count("added_total", "Records that were added.", s.Added)
	f.Counts("records_total", "Records that ended, by result.", "result", "sent", s.Sent, "failed", s.Failed)
	f.Add("in_flight", "Calls in flight, and those that wait for the gate.", float64(b.flying.Load()))
	b.mu.Lock()
	defer b.mu.Unlock()
	f.Add("waiting", "Calls that wait for the result of their record.", float64(len(b.waiting)))
	f.Add("records", "Records that are not done, in all processes, as last read by this one.", float64(b.known.Load()))
	return f
}
