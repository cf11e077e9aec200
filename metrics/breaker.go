package metrics

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
)

type breakerMetrics struct {
	transitions *prometheus.CounterVec
	duration    *prometheus.HistogramVec // nil without Config.Durations
}

func breakerKinds(c *Collector, cfg Config) []kind {
	m := &breakerMetrics{transitions: c.counterVec("breaker_transitions_total", "Changes of state, automatic and manual.", "name", "from", "to")}
	vectors := []vector{m.transitions}
	if cfg.Durations {
		m.duration = c.histogram("breaker_call_duration_seconds", "Duration of calls, by result.", "name", "result")
		vectors = append(vectors, m.duration)
	}
	single := func(name string, b *breaker.Breaker) func() { return m.attach(name, b.Observe) }
	group := func(name string, g *breaker.Group) func() { return m.attach(name, g.Observe) }
	return []kind{
		attached(kindOf("breaker", collectBreaker), single, vectors...),
		attached(kindOf("breaker", collectGroup), group, vectors...),
	}
}

func (m *breakerMetrics) attach(name string, observe func(breaker.Hooks) func()) (detach func()) {
	for from := breaker.Closed; from <= breaker.MetricsOnly; from++ {
		for to := breaker.Closed; to <= breaker.MetricsOnly; to++ {
			if from != to { // each of them can be entered by hand
				m.transitions.WithLabelValues(name, from.String(), to.String())
			}
		}
	}
	var (
		mu       sync.Mutex // of gone: a late change must not bring a series back
		gone     bool
		observed breaker.Hooks
	)
	observed.StateChanged = func(_ context.Context, info breaker.Info) {
		mu.Lock()
		defer mu.Unlock()
		if !gone {
			m.transitions.WithLabelValues(name, info.From.String(), info.State.String()).Inc()
		}
	}
	if m.duration != nil {
		var durations [core.Failure + 1]prometheus.Observer
		for o := range durations {
			durations[o] = m.duration.WithLabelValues(name, core.Outcome(o).String())
		}
		observed.Recorded = func(_ context.Context, info breaker.Info) {
			durations[info.Outcome].Observe(info.Duration.Seconds())
		}
	}
	cancel := observe(observed)
	return func() {
		cancel()
		mu.Lock()
		defer mu.Unlock()
		gone = true
	}
}

func collectBreaker(w *writer, b *breaker.Breaker) (panics uint64) {
	now := b.Snapshot()
	states := map[string]float64{}
	for state := breaker.Closed; state <= breaker.MetricsOnly; state++ {
		states[state.String()] = bit(state == now.State)
	}
	breakerState(w, states)
	w.gauges("breaker_window_calls", "Calls in the window.", "result", map[string]float64{
		"success": float64(now.Calls - now.Failures), "failure": float64(now.Failures),
	})
	if now.Calls >= now.MinCalls {
		w.gauge("breaker_failure_ratio", "Ratio of failures in the window, from 0 to 1; no sample below MinCalls.", float64(now.Failures)/float64(now.Calls))
	}
	if now.Threshold > 0 {
		w.gauge("breaker_failure_ratio_threshold", "Failure ratio at which the breaker opens; no sample with a number of failures.", now.Threshold)
	}
	if now.SlowThreshold > 0 {
		w.gauges("breaker_window_slow_calls", "Slow calls in the window.", "result", map[string]float64{
			"success": float64(now.Slow - now.SlowFailures), "failure": float64(now.SlowFailures),
		})
		if now.Calls >= now.MinCalls {
			w.gauge("breaker_slow_call_ratio", "Ratio of slow calls in the window, from 0 to 1; no sample below MinCalls or without SlowCall.", float64(now.Slow)/float64(now.Calls))
		}
		w.gauge("breaker_slow_call_ratio_threshold", "Slow call ratio at which the breaker opens; no sample without SlowCall.", now.SlowThreshold)
	}
	until := 0.0
	if !now.OpenUntil.IsZero() {
		until = float64(now.OpenUntil.UnixMilli()) / 1000
	}
	w.gauge("breaker_open_until_timestamp_seconds", "Time at which the breaker admits trials; 0 unless it is open.", until)
	return collectCalls(w, b.Stats())
}

// collectGroup exports a group as a whole: the number of series does not grow with
// the keys.
func collectGroup(w *writer, g *breaker.Group) (panics uint64) {
	s := g.Stats()
	states, overflow := map[string]float64{}, map[string]float64{}
	for i, n := range s.States {
		state := breaker.State(i)
		states[state.String()], overflow[state.String()] = float64(n), bit(state == s.OverflowState)
	}
	breakerState(w, states)
	w.gauge("breaker_keys", "Breakers in a group.", float64(s.Keys))
	w.counter("breaker_key_evictions_total", "Breakers evicted from a group: MaxKeys was reached.", s.Evicted)
	w.counter("breaker_key_overflows_total", "Calls whose key shared a breaker because the group was full.", s.Overflowed)
	w.gauges("breaker_overflow_state", "State of the breaker that keys share when a group is full: 1 for the current state.", "state", overflow)
	return collectCalls(w, s.Stats)
}

func breakerState(w *writer, states map[string]float64) {
	w.gauges("breaker_state", "Breakers in each state: 0 or 1 for a single breaker, a count for a group.", "state", states)
}

func collectCalls(w *writer, s breaker.Stats) (panics uint64) {
	w.counters("breaker_calls_total", "Calls by result.", "result", map[string]uint64{
		"success": s.Successes, "failure": s.Failures, "ignored": s.Ignored, "not_permitted": s.Rejected,
	})
	w.counters("breaker_slow_calls_total", "Calls that took longer than SlowCall, by result; they are among the calls too.", "result", map[string]uint64{
		"success": s.SlowSuccesses, "failure": s.SlowFailures,
	})
	w.counter("breaker_late_results_total", "Calls that ended too late to count: in another state, or after TrialTimeout.", s.Late)
	w.counter("breaker_ratio_exceeded_total", "Times that a breaker in MetricsOnly reached a ratio at which it would have opened.", s.Exceeded)
	w.counter("breaker_opened_total", "Times that a breaker was opened; not those of ForcedOpen.", s.Opened)
	return s.HookPanics
}
