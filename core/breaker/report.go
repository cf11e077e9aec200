package breaker

import (
	"context"
	"log/slog"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/registry"
)

// announce calls the observers of the queued changes, in order. The caller must not hold the lock.
func (b *Breaker) announce(queued bool) {
	if queued {
		b.changes.Drain()
	}
}

func (b *Breaker) tell(ctx context.Context, c StateChange) {
	if f := b.life.Load().Config.OnStateChange; f != nil {
		f(ctx, c)
	}
	b.emit(ctx, "circuit breaker changed its state", false, slog.String("from", c.From.String()), slog.String("to", c.To.String()),
		slog.String("reason", c.Reason), slog.Duration("open_for", c.OpenFor))
}

func (b *Breaker) emit(ctx context.Context, text string, call bool, attrs ...slog.Attr) {
	b.life.Emit(ctx, registry.Event{Text: text, Call: call, Key: b.key, Attrs: attrs})
}

func (b *Breaker) source() registry.Source {
	rows := func(context.Context) ([]registry.Row, error) { return []registry.Row{b.show(false)}, nil }
	return registry.Source{Time: func() { b.measured.Store(true) }, Rows: rows, Control: b.control, Figures: func() (f registry.Figures) {
		b.figures(&f)
		b.times(&f)
		return f
	}}
}

func (g *Group) source() registry.Source {
	return registry.Source{
		Time: func() { g.measured.Store(true) }, Rows: g.rows, Keys: g.figures,
		Control: func(ctx context.Context, verb, key string) (int, error) { return g.For(key).control(ctx, verb, key) },
		Figures: func() registry.Figures { return g.figures("") }, Hosts: g.hosts,
	}
}

func (g *Group) hosts() bool { return registry.HostKeys(&g.keys) }

// figures adds the figures of one breaker.
func (b *Breaker) figures(f *registry.Figures, labels ...string) {
	s, w := b.stats()
	r := b.life.Load().Settings
	var in [MetricsOnly + 1]int
	in[s.State] = 1
	f.Add("window_calls", "Calls in the window.", float64(w.calls-w.failures), append(labels, "result", "success")...)
	f.Add("window_calls", "Calls in the window.", float64(w.failures), append(labels, "result", "failure")...)
	ratio := func(name, of string, n int, limit float64) {
		if limit > 1 {
			return // there is none
		}
		f.Add(name+"_threshold", "Ratio of "+of+" at which the breaker opens; no sample if there is none.", limit, labels...)
		if w.calls >= r.MinCalls {
			f.Add(name, "Ratio of "+of+" in the window; no sample below MinCalls or without a threshold.", rate(n, w.calls), labels...)
		}
	}
	ratio("failure_ratio", "failures", w.failures, r.FailureRate)
	ratio("slow_call_ratio", "slow calls", w.slow, r.SlowRate)
	if r.SlowCall > 0 {
		f.Add("window_slow_calls", "Slow calls in the window.", float64(w.slow), labels...)
	}
	until := 0.0
	if e := b.refusal.Load(); e != nil && e.State == Open {
		until = float64(e.until.UnixMilli()) / 1000
	}
	f.Add("open_until_timestamp_seconds", "Time at which the breaker admits trials; 0 unless it is open.", until, labels...)
	s.figures(f, &in, labels...)
}

// figures returns the figures of each breaker, with its key under the label, which that of the keys without room does not have. If the
// label is "", it returns those of the group as a whole, whose number does not grow with the keys.
func (g *Group) figures(label string) (f registry.Figures) {
	if label == "" {
		s, in := g.sum()
		s.figures(&f, &in)
	} else {
		for key, b := range g.All() {
			b.figures(&f, label, key)
		}
		if rest := g.overflow.Load(); rest != nil {
			rest.figures(&f)
		}
	}
	_, s := g.breakers()
	f.Add("keys", "Breakers in a group.", float64(s.Keys))
	f.Count("key_evictions_total", "Breakers evicted from a group: MaxKeys was reached.", g.evicted.Load())
	f.Warn("key_overflows_total", "Calls whose key shared a breaker because the group was full.", g.overflowed.Load(),
		"calls shared a breaker, since the group is full")
	g.times(&f)
	return f
}

// figures adds the counts, and the number of breakers in each state.
func (s Stats) figures(f *registry.Figures, in *[MetricsOnly + 1]int, labels ...string) {
	for state, n := range in {
		labels := append(labels, "state", State(state).String()) //nolint:gocritic // another slice
		f.Add("state", "Breakers in each state: 0 or 1 for a single breaker, a count for a group.", float64(n), labels...)
	}
	for i, n := range []uint64{s.Successes, s.Failures, s.Ignored, s.Rejected} {
		result := [...]string{"success", "failure", "ignored", "not_permitted"}[i]
		f.Count("calls_total", "Calls by result.", n, append(labels, "result", result)...)
	}
	f.Count("slow_calls_total", "Calls that took longer than SlowCall; they are among the calls too.", s.Slow, labels...)
	f.Count("opened_total", "Times that a breaker was opened; not those of ForcedOpen.", s.Opened, labels...)
}

// times adds the durations of calls.
func (s *shared) times(f *registry.Figures) {
	if s.measured.Load() {
		for o := range s.durations {
			f.Histogram("call_duration_seconds", "Duration of calls, by result.", &s.durations[o], "result", core.Outcome(o).String())
		}
	}
}
