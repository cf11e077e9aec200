package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gresil/gresil/core/retry"
)

type retryMetrics struct {
	calls, attempts, retries, suppressed, budget *prometheus.Desc
	backoff                                      *prometheus.HistogramVec
}

func retryKinds(c *Collector, _ Config) []kind {
	m := &retryMetrics{}
	m.calls = c.desc("retry_calls_total", "Calls that ended, by result and by whether there was a retry.", "name", "result", "retried")
	m.attempts = c.desc("retry_attempts_total", "Attempts that ended, including first ones.", "name", "result")
	m.retries = c.desc("retry_retries_total", "Attempts begun after the first of a call.", "name")
	m.suppressed = c.desc("retry_suppressed_total", "Retries that would have been made, but for the reason given.", "name", "reason")
	m.budget = c.desc("retry_budget_left", "Retries left in the budget; no sample without a budget.", "name")
	m.backoff = c.histogram("retry_backoff_seconds", "Duration of waits before retries, by source.", "name", "source")
	return []kind{attached(kindOf("retry", m.collect), m.attach, m.backoff)}
}

func (m *retryMetrics) attach(name string, p *retry.Policy) (detach func()) {
	byBackoff, byRetryAfter := m.backoff.WithLabelValues(name, "backoff"), m.backoff.WithLabelValues(name, "retry_after")
	cancel := p.Observe(retry.Hooks{
		Retried: func(_ context.Context, info retry.Info) {
			if info.FromRetryAfter {
				byRetryAfter.Observe(info.Delay.Seconds())
			} else {
				byBackoff.Observe(info.Delay.Seconds())
			}
		},
	})
	return func() {
		cancel()
		m.backoff.DeletePartialMatch(prometheus.Labels{"name": name})
	}
}

func (m *retryMetrics) collect(ch chan<- prometheus.Metric, name string, p *retry.Policy) (panics uint64) {
	s := p.Stats()
	counter(ch, m.calls, s.Succeeded, name, "success", "false")
	counter(ch, m.calls, s.Recovered, name, "success", "true")
	counter(ch, m.calls, s.Failed, name, "failure", "false")
	counter(ch, m.calls, s.FailedRetried, name, "failure", "true")
	counter(ch, m.attempts, s.Succeeded+s.Recovered, name, "success")
	counter(ch, m.attempts, s.RetryableFailures, name, "retryable_failure")
	counter(ch, m.attempts, s.FinalFailures, name, "final_failure")
	counter(ch, m.retries, s.Retries, name)
	for reason := retry.Deadline; reason <= retry.OverBudget; reason++ {
		counter(ch, m.suppressed, s.Suppressed[reason], name, reason.String())
	}
	if b := p.Config().Budget; b != nil {
		gauge(ch, m.budget, float64(b.Left()), name)
	}
	return s.HookPanics
}
