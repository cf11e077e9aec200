package bulkhead

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

func (b *Bulkhead) figures() (f registry.Figures) {
	s := b.Stats()
	f.Counts("calls_total", "Calls that were admitted or not, by result.", "result", "admitted", s.Admitted, "rejected", s.Rejected, "canceled", s.Canceled)
	f.Counts("limit_changes_total", "Times that the results of calls changed the limit of a key, by direction.", "direction", "lowered", s.Lowered, "raised", s.Raised)
	f.Count("lost_total", "Calls in flight that lost their permits in the store.", s.Lost)
	f.Count("store_errors_total", "Calls that the store of the permits could not decide.", s.StoreErrors)
	f.Add("in_flight", "Permits that calls hold, of all keys.", float64(s.InFlight))
	f.Add("limit", "Permits that the known keys may hold together.", float64(s.Limit))
	f.Add("waiting", "Calls that wait.", float64(s.Waiting))
	f.Add("keys", "Keys that are kept, apart from the empty one.", float64(s.Keys))
	f.Histogram("wait_seconds", "Duration of the waits of calls that were then admitted.", &b.waits)
	return f
}

// emitCall emits the event of a single call.
func (b *Bulkhead) emitCall(ctx context.Context, text, key string, weight int, waited time.Duration) {
	if b.life.Calls() {
		b.life.Emit(ctx, registry.Event{Text: text, Call: true, Key: strings.Clone(key), Attrs: []slog.Attr{
			slog.Int("weight", weight), slog.Duration("waited", waited),
		}})
	}
}

// A change is a limit that a result has changed.
type change struct {
	ctx      context.Context //nolint:containedctx // of the call that caused it, for the event
	key      string
	old, now int
}

// announce emits the events of the changes, after the lock is released.
func (b *Bulkhead) announce() {
	b.changes.Drain(func(c change) {
		if b.life.Listening() {
			e := registry.Event{Text: "limit of calls in flight lowered", Key: c.key, Attrs: []slog.Attr{slog.Int("old", c.old), slog.Int("limit", c.now)}}
			if c.now > c.old {
				e.Text, e.Call = "limit of calls in flight raised", true // as calls succeed
			}
			b.life.Emit(c.ctx, e)
		}
	})
}

// emitOutage emits the event of a Store that failed with err, or has recovered.
func (b *Bulkhead) emitOutage(ctx context.Context, key string, err error) {
	switch {
	case !b.life.Listening():
	case err != nil:
		b.life.Emit(ctx, registry.Event{Text: "bulkhead store failed", Warn: true, Outage: true, Key: strings.Clone(key), Attrs: []slog.Attr{slog.Any("err", err)}})
	default:
		b.life.Emit(ctx, registry.Event{Text: "bulkhead store recovered", Outage: true, Key: strings.Clone(key)})
	}
}

// emitLost emits the event of a call that has lost its permits in the Store.
func (b *Bulkhead) emitLost(ctx context.Context, key string, weight int, err error) {
	if !b.life.Listening() {
		return
	}
	attrs := []slog.Attr{slog.Int("weight", weight)}
	if err != nil {
		attrs = append(attrs, slog.Any("err", err))
	}
	b.life.Emit(ctx, registry.Event{Text: "call lost its permits", Warn: true, Key: strings.Clone(key), Attrs: attrs})
}
