package breaker

import (
	"context"
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
	// Reason is the rule that changed the state, with its counts, as in "5 failures in a row", "52 of 100 calls failed", "20 of
	// 20 calls were slow", "asked to wait", "3 of 5 trials failed", "open for 30s", "set by hand".
	Reason string
	// OpenFor is how long the breaker will be open, if To is Open.
	OpenFor time.Duration
}

// A change is a change of state, that is announced in order, after the lock is released.
type change struct {
	ctx   context.Context //nolint:containedctx // on the way from the call to the observers
	state StateChange
	rates counts
	n     int // openings since the breaker was last closed
}

// announce calls the observers of the queued changes. The caller does not hold the lock.
func (b *Breaker) announce(queued bool) {
	if queued {
		b.changes.Drain(b.tell)
	}
}

func (b *Breaker) tell(c change) {
	s := &c.state
	if f := b.life.Load().Config.OnStateChange; f != nil {
		f(c.ctx, *s)
	}
	if b.life.Listening() {
		b.life.Emit(c.ctx, registry.Event{Text: "circuit breaker changed its state", Key: b.key, Attrs: append([]slog.Attr{
			slog.String("from", s.From.String()), slog.String("to", s.To.String()), slog.String("reason", s.Reason),
			slog.Duration("open_for", s.OpenFor), slog.Int("opened", c.n),
		}, c.rates.attrs()...)})
	}
}

func (c *counts) attrs() []slog.Attr {
	return []slog.Attr{slog.Float64("failure_rate", rate(c.failures, c.calls)), slog.Float64("slow_rate", rate(c.slow, c.calls))}
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
func (b *Breaker) emitRecorded(p *Permit, outcome core.Outcome, slow bool, now time.Duration, c counts) {
	var took time.Duration
	if p.word&timed != 0 {
		took = now - p.started
	}
	b.life.Emit(p.ctx, registry.Event{Text: "circuit breaker recorded a call", Call: true, Key: b.key, Attrs: append([]slog.Attr{
		slog.String("state", stateOf(p.word).String()), slog.String("outcome", outcome.String()), slog.Duration("duration", took), slog.Bool("slow", slow),
	}, c.attrs()...)})
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
		b.figures(&f)
		b.sums(&f)
		return f
	}}
}

func (g *Group) source() registry.Source {
	return registry.Source{
		Time: func() { g.time(append(g.breakers(), g.overflow)...) }, Keys: g.byKeys, Figures: g.figures,
		Hosts: func() bool { return g.hosts.Load() == keysAreHosts }, Bind: g.bind,
	}
}

// What the keys of a group are, as its plugins say.
const (
	keysAreHosts = iota + 1
	keysAreSecret
)

// bind is told of a plugin whose keys are hosts, or are not.
func (g *Group) bind(hosts bool) {
	if !hosts {
		g.hosts.Store(keysAreSecret)
	} else {
		g.hosts.CompareAndSwap(0, keysAreHosts)
	}
}

// time begins to measure the durations of calls.
func (s *shared) time(all ...*Breaker) {
	if s.durations.CompareAndSwap(nil, &durations{}) {
		for _, b := range all {
			b.adopt()
		}
	}
}

// figures adds the figures of one breaker.
func (b *Breaker) figures(f *registry.Figures, labels ...string) {
	s, w := b.stats()
	r := b.life.Load().Settings
	states(f, func(state State) int {
		if state == s.State {
			return 1
		}
		return 0
	}, labels...)
	gauge := func(name, help string, n float64, more ...string) { f.Add(name, help, n, append(more, labels...)...) }
	gauge("window_calls", "Calls in the window.", float64(w.calls-w.failures), "result", "success")
	gauge("window_calls", "Calls in the window.", float64(w.failures), "result", "failure")
	if w.calls >= r.MinCalls {
		gauge("failure_ratio", "Ratio of failures in the window, from 0 to 1; no sample below MinCalls.", s.FailureRate)
	}
	if r.failureRate > 0 {
		gauge("failure_ratio_threshold", "Failure ratio at which the breaker opens; no sample if there is none.", r.failureRate)
	}
	if r.slowing > 0 {
		gauge("window_slow_calls", "Slow calls in the window.", float64(w.slow))
		if w.calls >= r.MinCalls {
			gauge("slow_call_ratio", "Ratio of slow calls in the window, from 0 to 1; no sample below MinCalls or without SlowCall.", s.SlowRate)
		}
		gauge("slow_call_ratio_threshold", "Slow call ratio at which the breaker opens; no sample without SlowCall.", r.slowing)
	}
	until := 0.0
	if e := b.refusal.Load(); e != nil && e.State == Open {
		until = float64(e.until.UnixMilli()) / 1000
	}
	gauge("open_until_timestamp_seconds", "Time at which the breaker admits trials; 0 unless it is open.", until)
	s.figures(f, labels...)
}

func states(f *registry.Figures, of func(State) int, labels ...string) {
	for s := Closed; s <= MetricsOnly; s++ {
		f.Add("state", "Breakers in each state: 0 or 1 for a single breaker, a count for a group.", float64(of(s)), append([]string{"state", s.String()}, labels...)...)
	}
}

// figures are those of a group as a whole: their number does not grow with the keys.
func (g *Group) figures() (f registry.Figures) {
	s, in := g.sum()
	states(&f, func(state State) int { return in[state] })
	s.figures(&f)
	g.limits(&f)
	return f
}

// limits adds the figures of MaxKeys, and the sums.
func (g *Group) limits(f *registry.Figures) {
	g.mu.RLock()
	keys, evicted := len(g.all), g.evicted
	g.mu.RUnlock()
	f.Add("keys", "Breakers in a group.", float64(keys))
	f.Count("key_evictions_total", "Breakers evicted from a group: MaxKeys was reached.", evicted)
	f.Warn("key_overflows_total", "Calls whose key shared a breaker because the group was full.", g.overflowed.Load(), "calls shared a breaker, since the group is full")
	g.sums(f)
}

// byKeys are the figures of each breaker, under a label.
func (g *Group) byKeys(label string) (f registry.Figures) {
	for key, b := range g.All() {
		b.figures(&f, label, key)
	}
	g.limits(&f)
	return f
}

// figures adds the counters.
func (s Stats) figures(f *registry.Figures, labels ...string) {
	count := func(name, help string, n uint64, more ...string) { f.Count(name, help, n, append(more, labels...)...) }
	const calls = "Calls by result."
	count("calls_total", calls, s.Successes, "result", "success")
	count("calls_total", calls, s.Failures, "result", "failure")
	count("calls_total", calls, s.Ignored, "result", "ignored")
	count("calls_total", calls, s.Rejected, "result", "not_permitted")
	count("slow_calls_total", "Calls that took longer than SlowCall; they are among the calls too.", s.Slow)
	count("opened_total", "Times that a breaker was opened; not those of ForcedOpen.", s.Opened)
}

// sums adds what the breakers share.
func (s *shared) sums(f *registry.Figures) {
	for from := range s.transitions {
		for to := range s.transitions[from] {
			if from != to { // each of them can be entered by hand
				f.Count("transitions_total", "Changes of state, automatic and manual.", s.transitions[from][to].Load(), "from", State(from).String(), "to", State(to).String())
			}
		}
	}
	if d := s.durations.Load(); d != nil {
		for o := range d {
			f.Histogram("call_duration_seconds", "Duration of calls, by result.", &d[o], "result", core.Outcome(o).String())
		}
	}
}
