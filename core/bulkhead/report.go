package bulkhead

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

// Stats are the counts of a bulkhead, and its present state over all keys.
type Stats struct {
	Admitted uint64 // calls that were admitted
	Rejected uint64 // calls that got no permits, including canceled ones
	InFlight int    // permits that calls hold now
	Limit    int    // permits that the calls of all known keys can hold now
	Waiting  int    // calls that wait now
	Keys     int    // keys that are kept now, not counting the empty one
}

// String returns the stats in one line, as in "in_flight=8/25 waiting=0 admitted=120 rejected=3".
func (s Stats) String() string {
	return fmt.Sprintf("in_flight=%d/%d waiting=%d admitted=%d rejected=%d", s.InFlight, s.Limit, s.Waiting, s.Admitted, s.Rejected)
}

// Stats returns the counts so far, and the present state. Limit includes that of the empty key if it was used, or if there is no other key.
func (b *Bulkhead) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Stats{Admitted: b.forgotten, Rejected: b.refused.Load() + b.canceled.Load(), Keys: len(b.cells) - 1}
	for _, c := range b.cells {
		c.lock()
		s.Admitted += c.admitted
		s.InFlight += c.limit - free(c.word.Load())
		s.Waiting += c.queue.Len()
		if c != &b.unkeyed || c.admitted > 0 || s.Keys == 0 {
			s.Limit += c.limit
		}
		c.unlock()
	}
	return s
}

func (b *Bulkhead) figures() (f registry.Figures) {
	s := b.Stats()
	f.Counts("calls_total", "Calls that were admitted or not, by result.", "result",
		"admitted", s.Admitted, "rejected", b.refused.Load(), "canceled", b.canceled.Load())
	f.Counts("limit_changes_total", "Times that the results of calls changed the limit of a key, by direction.", "direction",
		"lowered", b.lowered.Load(), "raised", b.raised.Load())
	f.Add("in_flight", "Permits that calls hold, of all keys.", float64(s.InFlight))
	f.Add("limit", "Permits that the known keys may hold together.", float64(s.Limit))
	f.Add("waiting", "Calls that wait.", float64(s.Waiting))
	f.Add("keys", "Keys that are kept, apart from the empty one.", float64(s.Keys))
	f.Histogram("wait_seconds", "Duration of the waits of calls that were then admitted.", &b.waits)
	return f
}

// rejected counts a call that is not admitted.
func (b *Bulkhead) rejected(ctx context.Context, key string, n int, waited time.Duration, err error) error {
	if _, full := err.(*FullError); !full { //nolint:errorlint // it is not wrapped yet
		b.canceled.Add(1)
		return err
	}
	b.refused.Inc()
	if b.life.Calls() {
		e := registry.Event{Text: "call rejected, since the bulkhead is full", Call: true, Key: key}
		e.Attrs = []slog.Attr{slog.Int("weight", n), slog.Duration("waited", waited)}
		b.life.Emit(ctx, e)
	}
	return err
}
