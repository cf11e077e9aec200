package breaker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/registry"
)

// A StateChange is a change of the state of a breaker.
type StateChange struct {
	Name     string // of the breaker or its Group
	Key      string // in a Group, such as a host
	From, To State
	// Reason is the rule that changed the state, with its counts, as in "52 of 100 calls failed", "20 of 20 calls were slow", "asked
	// to wait", "3 of 5 trials failed", "open for 30s", "set by hand".
	Reason string
	// OpenFor is how long the breaker will be open, if To is Open.
	OpenFor time.Duration
}

// A change is a change of state, or another event, that is announced in order, after the lock is released.
type change struct {
	ctx   context.Context //nolint:containedctx // on the way from the call to the observers
	state StateChange
	rates rates
	text  string // of the event, unless it is a change of state
	n     int    // openings since the breaker was last closed
}

const resetText = "circuit breaker was reset"

// queue adds a change. The caller holds the lock.
func (b *Breaker) queue(c change) {
	c.state.Name, c.state.Key = b.Name(), b.key
	b.changes.Append(c)
	b.queued = true
}

// announce calls the observers of the queued changes. The caller does not hold the lock.
func (b *Breaker) announce(queued bool) {
	if queued {
		b.changes.Drain(b.tell)
	}
}

func (b *Breaker) tell(c change) {
	s := &c.state
	if f := b.life.Load().Config.OnStateChange; f != nil && c.text == "" {
		f(c.ctx, *s)
	}
	if !b.life.Listening() {
		return
	}
	var attrs []slog.Attr
	if c.text != resetText {
		attrs = []slog.Attr{slog.Float64("failure_rate", c.rates.failure), slog.Float64("slow_rate", c.rates.slow)}
	}
	if c.text == "" {
		c.text = "circuit breaker changed its state"
		attrs = append([]slog.Attr{slog.String("from", s.From.String()), slog.String("to", s.To.String()), slog.String("reason", s.Reason)}, attrs...)
		attrs = append(attrs, slog.Duration("open_for", s.OpenFor), slog.Int("opened", c.n))
	}
	b.life.Emit(c.ctx, registry.Event{Text: c.text, Key: b.key, Attrs: attrs})
}

// reason returns the rule by which the window or the trials decide, with its counts.
func (b *Breaker) reason() string {
	w, what := b.window(), "calls"
	if b.state == HalfOpen {
		w, what = &b.trials.counts, "trials"
	}
	if failing, slow := b.rules.reached(w); slow && !failing || b.state == HalfOpen && w.slow > w.failures {
		return fmt.Sprintf("%d of %d %s were slow", w.slow, w.calls, what)
	}
	return fmt.Sprintf("%d of %d %s failed", w.failures, w.calls, what)
}

// durations are the histograms of calls, by outcome.
type durations [core.Failure + 1]registry.Histogram

// observe adds the duration of a call.
func (d *durations) observe(outcome core.Outcome, took time.Duration) {
	if outcome > core.Failure {
		outcome = core.Ignored
	}
	d[outcome].Observe(took)
}

// emitRecorded emits the event of a call that was counted.
func (b *Breaker) emitRecorded(p *Permit, outcome core.Outcome, slow bool, took time.Duration, rates rates) {
	b.life.Emit(p.ctx, registry.Event{Text: "circuit breaker recorded a call", Call: true, Key: b.key, Attrs: []slog.Attr{
		slog.String("state", stateOf(p.word).String()), slog.String("outcome", outcome.String()), slog.Duration("duration", took), slog.Bool("slow", slow),
		slog.Float64("failure_rate", rates.failure), slog.Float64("slow_rate", rates.slow),
	}})
}

// emitRejected emits the event of a call that was not admitted.
func (b *Breaker) emitRejected(ctx context.Context, e *OpenError) {
	if b.life.Calls() {
		b.life.Emit(ctx, registry.Event{Text: "circuit breaker rejected a call", Call: true, Key: b.key, Attrs: []slog.Attr{
			slog.String("state", e.State.String()), slog.Duration("retry_after", e.RetryAfter()),
		}})
	}
}

func (b *Breaker) source() registry.Source {
	return registry.Source{Time: func() { b.time(b) }, Figures: func() (f registry.Figures) {
		b.present(&f)
		b.counted(&f, b.Stats())
		return f
	}}
}

func (g *Group) source() registry.Source {
	return registry.Source{Time: func() { g.time(append(g.breakers(), g.overflow)...) }, Keys: g.byKeys, Figures: g.figures}
}

// time begins to measure the durations of calls.
func (s *shared) time(all ...*Breaker) {
	if s.durations.CompareAndSwap(nil, &durations{}) {
		for _, b := range all {
			b.adopt()
		}
	}
}

// present adds the figures of the state of a breaker.
func (b *Breaker) present(f *registry.Figures, labels ...string) {
	now := b.Snapshot()
	states(f, func(s State) int {
		if s == now.State {
			return 1
		}
		return 0
	}, labels...)
	gauge := func(name, help string, n float64, more ...string) { f.Add(name, help, n, append(more, labels...)...) }
	gauge("window_calls", "Calls in the window.", float64(now.Calls-now.Failures), "result", "success")
	gauge("window_calls", "Calls in the window.", float64(now.Failures), "result", "failure")
	if now.Calls >= now.MinCalls {
		gauge("failure_ratio", "Ratio of failures in the window, from 0 to 1; no sample below MinCalls.", float64(now.Failures)/float64(now.Calls))
	}
	if now.Threshold > 0 {
		gauge("failure_ratio_threshold", "Failure ratio at which the breaker opens; no sample with a number of failures.", now.Threshold)
	}
	if now.SlowThreshold > 0 {
		gauge("window_slow_calls", "Slow calls in the window.", float64(now.Slow-now.SlowFailures), "result", "success")
		gauge("window_slow_calls", "Slow calls in the window.", float64(now.SlowFailures), "result", "failure")
		if now.Calls >= now.MinCalls {
			gauge("slow_call_ratio", "Ratio of slow calls in the window, from 0 to 1; no sample below MinCalls or without SlowCall.", float64(now.Slow)/float64(now.Calls))
		}
		gauge("slow_call_ratio_threshold", "Slow call ratio at which the breaker opens; no sample without SlowCall.", now.SlowThreshold)
	}
	until := 0.0
	if !now.OpenUntil.IsZero() {
		until = float64(now.OpenUntil.UnixMilli()) / 1000
	}
	gauge("open_until_timestamp_seconds", "Time at which the breaker admits trials; 0 unless it is open.", until)
}

func states(f *registry.Figures, of func(State) int, labels ...string) {
	for s := Closed; s <= MetricsOnly; s++ {
		f.Add("state", "Breakers in each state: 0 or 1 for a single breaker, a count for a group.", float64(of(s)), append([]string{"state", s.String()}, labels...)...)
	}
}

// figures are those of a group as a whole: their number does not grow with the keys.
func (g *Group) figures() (f registry.Figures) {
	s := g.Stats()
	states(&f, func(state State) int { return s.States[state] })
	g.limits(&f, s)
	g.counted(&f, s.Stats)
	return f
}

// limits adds the figures of MaxKeys.
func (g *Group) limits(f *registry.Figures, s GroupStats) {
	f.Add("keys", "Breakers in a group.", float64(s.Keys))
	f.Count("key_evictions_total", "Breakers evicted from a group: MaxKeys was reached.", s.Evicted)
	f.Warn("key_overflows_total", "Calls whose key shared a breaker because the group was full.", s.Overflowed, "calls shared a breaker, since the group is full")
	for state := Closed; state <= MetricsOnly; state++ {
		n := 0.0
		if state == s.OverflowState {
			n = 1
		}
		f.Add("overflow_state", "State of the breaker that keys share when a group is full: 1 for the current state.", n, "state", state.String())
	}
}

// byKeys are the figures of each breaker, under a label.
func (g *Group) byKeys(label string) (f registry.Figures) {
	for key, b := range g.All() {
		b.present(&f, label, key)
		addCounts(&f, b.Stats(), label, key)
	}
	g.limits(&f, g.Stats())
	g.sums(&f)
	return f
}

// counted adds counts, and the sums that breakers share.
func (s *shared) counted(f *registry.Figures, stats Stats) {
	addCounts(f, stats)
	s.sums(f)
}

func addCounts(f *registry.Figures, s Stats, labels ...string) {
	count := func(name, help string, n uint64, more ...string) { f.Count(name, help, n, append(more, labels...)...) }
	const calls, slow = "Calls by result.", "Calls that took longer than SlowCall, by result; they are among the calls too."
	count("calls_total", calls, s.Successes, "result", "success")
	count("calls_total", calls, s.Failures, "result", "failure")
	count("calls_total", calls, s.Ignored, "result", "ignored")
	count("calls_total", calls, s.Rejected, "result", "not_permitted")
	count("slow_calls_total", slow, s.SlowSuccesses, "result", "success")
	count("slow_calls_total", slow, s.SlowFailures, "result", "failure")
	count("late_results_total", "Calls that ended too late to count: in another state, or after TrialTimeout.", s.Late)
	count("ratio_exceeded_total", "Times that a breaker in MetricsOnly reached a ratio at which it would have opened.", s.Exceeded)
	count("opened_total", "Times that a breaker was opened; not those of ForcedOpen.", s.Opened)
}

func (s *shared) sums(f *registry.Figures) {
	for from := Closed; from <= MetricsOnly; from++ {
		for to := Closed; to <= MetricsOnly; to++ {
			if from != to { // each of them can be entered by hand
				f.Count("transitions_total", "Changes of state, automatic and manual.", s.transitions[from][to].Load(), "from", from.String(), "to", to.String())
			}
		}
	}
	if d := s.durations.Load(); d != nil {
		for o := range d {
			f.Histogram("call_duration_seconds", "Duration of calls, by result.", &d[o], "result", core.Outcome(o).String())
		}
	}
}
