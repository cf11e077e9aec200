package metrics

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
)

type breakerMetrics struct {
	state, calls, slowCalls, late, exceeded, openUntil *prometheus.Desc
	opened, overflowState                              *prometheus.Desc
	windowCalls, ratio, threshold                      *prometheus.Desc
	windowSlowCalls, slowRatio, slowThreshold          *prometheus.Desc
	keys, evictions, overflows                         *prometheus.Desc

	transitions *prometheus.CounterVec
	duration    *prometheus.HistogramVec // nil without Config.Durations
}

func breakerKinds(c *Collector, cfg Config) []kind {
	m := &breakerMetrics{}
	m.state = c.desc("breaker_state", "Breakers in each state: 0 or 1 for a single breaker, a count for a group.", "name", "state")
	m.calls = c.desc("breaker_calls_total", "Calls by result.", "name", "result")
	m.slowCalls = c.desc("breaker_slow_calls_total", "Calls that took longer than SlowCall, by result; they are among the calls too.", "name", "result")
	m.late = c.desc("breaker_late_results_total", "Calls that ended too late to count: in another state, or after TrialTimeout.", "name")
	m.opened = c.desc("breaker_opened_total", "Times that a breaker was opened; not those of ForcedOpen.", "name")
	m.exceeded = c.desc("breaker_ratio_exceeded_total", "Times that a breaker in MetricsOnly reached a ratio at which it would have opened.", "name")
	m.windowCalls = c.desc("breaker_window_calls", "Calls in the window.", "name", "result")
	m.ratio = c.desc("breaker_failure_ratio", "Ratio of failures in the window, from 0 to 1; no sample below MinCalls.", "name")
	m.threshold = c.desc("breaker_failure_ratio_threshold", "Failure ratio at which the breaker opens; no sample with a number of failures.", "name")
	m.windowSlowCalls = c.desc("breaker_window_slow_calls", "Slow calls in the window.", "name", "result")
	m.slowRatio = c.desc("breaker_slow_call_ratio", "Ratio of slow calls in the window, from 0 to 1; no sample below MinCalls or without SlowCall.", "name")
	m.slowThreshold = c.desc("breaker_slow_call_ratio_threshold", "Slow call ratio at which the breaker opens; no sample without SlowCall.", "name")
	m.openUntil = c.desc("breaker_open_until_timestamp_seconds", "Time at which the breaker admits trials; 0 unless it is open.", "name")
	m.keys = c.desc("breaker_keys", "Breakers in a group.", "name")
	m.evictions = c.desc("breaker_key_evictions_total", "Breakers evicted from a group: MaxKeys was reached.", "name")
	m.overflowState = c.desc("breaker_overflow_state", "State of the breaker that keys share when a group is full: 1 for the current state.", "name", "state")
	m.overflows = c.desc("breaker_key_overflows_total", "Calls whose key shared a breaker because the group was full.", "name")
	m.transitions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: c.namespace, Name: "breaker_transitions_total", Help: "Changes of state, automatic and manual.",
	}, []string{"name", "from", "to"})
	vectors := []prometheus.Collector{m.transitions}
	if cfg.Durations {
		m.duration = c.histogram("breaker_call_duration_seconds", "Duration of calls, by result.", "name", "result")
		vectors = append(vectors, m.duration)
	}
	single := func(name string, b *breaker.Breaker) func() { return m.attach(name, b.Observe) }
	group := func(name string, g *breaker.Group) func() { return m.attach(name, g.Observe) }
	return []kind{
		attached(kindOf("breaker", m.collect), single, vectors...),
		attached(kindOf("breaker", m.collectGroup), group),
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
		m.transitions.DeletePartialMatch(prometheus.Labels{"name": name})
		if m.duration != nil {
			m.duration.DeletePartialMatch(prometheus.Labels{"name": name})
		}
	}
}

func (m *breakerMetrics) collect(ch chan<- prometheus.Metric, name string, b *breaker.Breaker) (panics uint64) {
	now := b.Snapshot()
	gaugeState(ch, m.state, now.State, name)
	gauge(ch, m.windowCalls, float64(now.Calls-now.Failures), name, "success")
	gauge(ch, m.windowCalls, float64(now.Failures), name, "failure")
	if now.Calls >= now.MinCalls {
		gauge(ch, m.ratio, float64(now.Failures)/float64(now.Calls), name)
	}
	if now.Threshold > 0 {
		gauge(ch, m.threshold, now.Threshold, name)
	}
	if now.SlowThreshold > 0 {
		gauge(ch, m.windowSlowCalls, float64(now.Slow-now.SlowFailures), name, "success")
		gauge(ch, m.windowSlowCalls, float64(now.SlowFailures), name, "failure")
		if now.Calls >= now.MinCalls {
			gauge(ch, m.slowRatio, float64(now.Slow)/float64(now.Calls), name)
		}
		gauge(ch, m.slowThreshold, now.SlowThreshold, name)
	}
	until := 0.0
	if !now.OpenUntil.IsZero() {
		until = float64(now.OpenUntil.UnixMilli()) / 1000
	}
	gauge(ch, m.openUntil, until, name)
	return m.collectCalls(ch, name, b.Stats())
}

// gaugeState exports 1 for the current state, and 0 for each other.
func gaugeState(ch chan<- prometheus.Metric, desc *prometheus.Desc, is breaker.State, name string) {
	for state := breaker.Closed; state <= breaker.MetricsOnly; state++ {
		one := 0.0
		if state == is {
			one = 1
		}
		gauge(ch, desc, one, name, state.String())
	}
}

// collectGroup exports a group as a whole: the number of series does not grow with
// the keys.
func (m *breakerMetrics) collectGroup(ch chan<- prometheus.Metric, name string, g *breaker.Group) (panics uint64) {
	s := g.Stats()
	for state, n := range s.States {
		gauge(ch, m.state, float64(n), name, breaker.State(state).String())
	}
	gauge(ch, m.keys, float64(s.Keys), name)
	counter(ch, m.evictions, s.Evicted, name)
	counter(ch, m.overflows, s.Overflowed, name)
	gaugeState(ch, m.overflowState, s.OverflowState, name)
	return m.collectCalls(ch, name, s.Stats)
}

func (m *breakerMetrics) collectCalls(ch chan<- prometheus.Metric, name string, s breaker.Stats) (panics uint64) {
	counter(ch, m.calls, s.Successes, name, "success")
	counter(ch, m.calls, s.Failures, name, "failure")
	counter(ch, m.calls, s.Ignored, name, "ignored")
	counter(ch, m.calls, s.Rejected, name, "not_permitted")
	counter(ch, m.slowCalls, s.SlowSuccesses, name, "success")
	counter(ch, m.slowCalls, s.SlowFailures, name, "failure")
	counter(ch, m.late, s.Late, name)
	counter(ch, m.exceeded, s.Exceeded, name)
	counter(ch, m.opened, s.Opened, name)
	return s.HookPanics
}
