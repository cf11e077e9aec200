package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

// figures returns the [Stats] and the end of the cooldown, for package metrics.
func (d *Dispatcher[K, C]) figures() (figures registry.Figures) {
	snapshot := d.Snapshot()
	s, until, held := snapshot.Stats, 0.0, [2]uint64{}
	for _, h := range snapshot.Held {
		held[h.Scope]++
		if h.Scope == ScopeVendor {
			until = float64(h.Until.UnixMilli()) / 1000
		}
	}
	figure := func(name, help string, n float64) {
		figures.Add(name, help, n)
	}
	labeled := func(name, help, label string, counts ...count) {
		for _, c := range counts {
			figures.Add(name, help, float64(c.n), label, c.of)
		}
	}
	labeled("calls_total", "Calls that have completed, or were not accepted (rejected), by result.", "result",
		count{"succeeded", s.Succeeded}, count{"failed", s.Failed}, count{"gave_up", s.GaveUp}, count{"canceled", s.Canceled}, count{"rejected", s.Rejected})
	figure("attempts_total", "Attempts that have ended.", float64(s.Attempts))
	figure("limited_attempts_total", "Attempts that the vendor refused because of a limit; they are among the attempts too.", float64(s.Limited))
	figure("cooldowns_total", "Cooldowns that began; one that is extended counts once.", float64(s.Cooldowns))
	figure("store_failures_total", "Times that the store of the cooldowns became unavailable.", float64(s.StoreFailures))
	figure("dials_total", "Connections that were dialed, successfully or not.", float64(s.Dials))
	figure("evicted_connections_total", "Idle connections closed to make room for another key.", float64(s.Evicted))
	figure("active", "Calls that are accepted and not completed.", float64(s.Active))
	figure("waiting", "Calls that wait for a connection.", float64(s.Waiting))
	figure("in_flight", "Attempts in flight.", float64(s.InFlight))
	figure("limit", "Attempts that may be in flight.", float64(s.Limit))
	labeled("connections", "Connections by state; those being dialed are used.", "state",
		count{"idle", uint64(s.Idle)}, count{"used", uint64(s.Connections - s.Idle)})
	labeled("held_scopes", "Cooldowns in force, of the vendor and of its accounts.", "scope",
		count{ScopeVendor.String(), held[ScopeVendor]}, count{ScopeAccount.String(), held[ScopeAccount]})
	figure("cooldown_until_timestamp_seconds", "Time at which the cooldown of the vendor ends; 0 unless it is held.", until)
	return figures
}

// A count is one value of a label.
type count struct {
	of string
	n  uint64
}

// events calls f when a cooldown begins, is extended, or ends, when a call gives
// up, and when the Store fails or recovers, for package logs; with calls also when a call waits for a connection, has it, and
// returns it. If the vendor is held and each attempt in flight extends that by less than a
// second, f is called once.
func (d *Dispatcher[K, C]) events(calls bool, f func(ctx context.Context, step registry.Event)) (cancel func()) {
	var told atomic.Int64 // end of the cooldown of the vendor, in nanoseconds
	hooks := Hooks{
		Held: func(ctx context.Context, info Info) {
			if info.Scope == ScopeVendor {
				if old := time.Unix(0, told.Load()); time.Now().Before(old) && info.Until.Sub(old) < time.Second {
					return
				}
				told.Store(info.Until.UnixNano())
			}
			f(ctx, registry.Event{Text: "calls are held back", Key: info.Account, Attrs: []slog.Attr{scopeAttr(info), slog.Time("until", info.Until)}})
		},
		Resumed: func(ctx context.Context, info Info) {
			f(ctx, registry.Event{Text: "calls are made again", Key: info.Account, Attrs: []slog.Attr{scopeAttr(info)}})
		},
		GaveUp: func(ctx context.Context, info Info) {
			f(ctx, registry.Event{Text: "call gave up, as the vendor refused it too often", Key: keyText(info.Key), Attrs: []slog.Attr{
				slog.Int("attempts", info.Attempts), slog.Any("err", info.Err),
			}})
		},
		StoreFailed: func(ctx context.Context, info Info) {
			f(ctx, registry.Event{Text: "cooldown store failed", Warn: true, Attrs: []slog.Attr{slog.Any("err", info.Err)}})
		},
		StoreRecovered: func(ctx context.Context, _ Info) {
			f(ctx, registry.Event{Text: "cooldown store recovered"})
		},
	}
	if calls {
		hooks.Waiting = func(ctx context.Context, info Info) {
			f(ctx, registry.Event{Text: "call waits for a connection", Call: true, Key: keyText(info.Key)})
		}
		hooks.Connected = func(ctx context.Context, info Info) {
			f(ctx, registry.Event{Text: "connection available", Call: true, Key: keyText(info.Key), Attrs: []slog.Attr{slog.Duration("waited", info.Waited)}})
		}
		hooks.Returned = func(ctx context.Context, info Info) {
			f(ctx, registry.Event{Text: "connection returned", Call: true, Key: keyText(info.Key)})
		}
	}
	return d.Observe(hooks)
}

func scopeAttr(info Info) slog.Attr { return slog.String("scope", info.Scope.String()) }

// keyText returns the text of a key. Of a pointer without a method for it, it is the
// address: its owner may change the value at the same time, and reading a map then ends the
// process.
func keyText(key any) string {
	switch key.(type) {
	case fmt.Formatter, fmt.Stringer, error:
	default:
		if v := reflect.ValueOf(key); v.Kind() == reflect.Pointer {
			return fmt.Sprintf("%T(%#x)", key, v.Pointer())
		}
	}
	return fmt.Sprint(key)
}
