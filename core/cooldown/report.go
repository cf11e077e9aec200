package cooldown

import (
	"context"
	"log/slog"
	"time"

	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/waitq"
)

func (c *Cooldown) figures() (f registry.Figures) {
	s := c.Stats()
	f.Counts("holds_total", "Holds of a key (held), and first successful calls after one (resumed).", "event", "held", s.Holds, "resumed", s.Resumed)
	f.Counts("calls_total", "Calls to a held key that had to wait or were rejected, by result; each call has one.", "result",
		"waited", s.Waited, "rejected", s.Rejected, "canceled", s.Canceled)
	f.Count("overdue_probes_total", "Calls after a hold that took longer than ProbeTimeout and lost their slot; those that had waited are among the calls too.", s.Overdue)
	f.Warn("evicted_holds_total", "Holds evicted: MaxKeys was reached.", s.Evicted, "cooldowns evicted: MaxKeys reached")
	f.Count("store_failures_total", "Times that the store of the holds became unavailable.", s.StoreFailures)
	f.Add("keys", "Keys that are held, or in the ramp after a hold.", float64(s.Keys))
	f.Add("waiting", "Calls that wait.", float64(s.Waiting))
	return f
}

// emitCall emits the event of a single call.
func (c *Cooldown) emitCall(ctx context.Context, text, key string, waited time.Duration) {
	if c.life.Calls() {
		c.life.Emit(waitq.Unbound(ctx), registry.Event{Text: text, Call: true, Key: key, Attrs: []slog.Attr{slog.Duration("waited", waited)}})
	}
}

// what a change is.
type what uint8

const (
	held  what = iota
	heard      // held by another process
	resumed
	released
	storeFailed
	storeRecovered
)

// A change is what the table and the listeners receive in order.
type change struct {
	ctx   context.Context //nolint:containedctx // of the call that caused it, for the listeners
	key   string
	until time.Time
	what  what
	err   error
}

// announce passes the changes on, after the lock is released.
func (c *Cooldown) announce() {
	c.changes.Drain(func(e change) {
		if c.table != nil {
			switch left := time.Until(e.until); e.what { //nolint:exhaustive // the others concern this process
			case held:
				c.table.Hold(e.key, left)
			case released:
				c.table.Release(e.key, left)
			}
		}
		if c.life.Listening() {
			c.emit(e)
		}
	})
}

// emit reports a change.
func (c *Cooldown) emit(of change) {
	e := registry.Event{Key: of.key}
	switch of.what {
	case held, heard:
		e.Text, e.Attrs = "calls are held back", []slog.Attr{slog.Time("until", of.until)}
	case resumed:
		e.Text, e.Attrs = "calls are made again", []slog.Attr{slog.Time("held_until", of.until)}
	case storeFailed:
		e.Text, e.Warn, e.Attrs = "cooldown store failed", true, []slog.Attr{slog.Any("err", of.err)}
	case storeRecovered:
		e.Text = "cooldown store recovered"
	case released:
		return
	}
	c.life.Emit(waitq.Unbound(of.ctx), e)
}
