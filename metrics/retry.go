package metrics

import (
	"context"

	"github.com/gresil/gresil/core/retry"
)

func retryKinds(c *Collector, _ Config) []kind {
	waits := c.histogram("retry_backoff_seconds", "Duration of waits before retries, by source.", "name", "source")
	attach := func(name string, p *retry.Policy) (cancel func()) {
		byBackoff, byRetryAfter := waits.WithLabelValues(name, "backoff"), waits.WithLabelValues(name, "retry_after")
		return p.Observe(retry.Hooks{
			Retried: func(_ context.Context, info retry.Info) {
				if info.FromRetryAfter {
					byRetryAfter.Observe(info.Delay.Seconds())
				} else {
					byBackoff.Observe(info.Delay.Seconds())
				}
			},
		})
	}
	return []kind{attached(kindOf("retry", collectRetry), attach, waits)}
}

func collectRetry(w *writer, p *retry.Policy) (panics uint64) {
	s := p.Stats()
	calls := w.desc("retry_calls_total", "Calls that ended, by result and by whether there was a retry.", "result", "retried")
	counter(w.ch, calls, s.Succeeded, w.name, "success", "false")
	counter(w.ch, calls, s.Recovered, w.name, "success", "true")
	counter(w.ch, calls, s.Failed, w.name, "failure", "false")
	counter(w.ch, calls, s.FailedRetried, w.name, "failure", "true")
	w.counters("retry_attempts_total", "Attempts that ended, including first ones.", "result", map[string]uint64{
		"success": s.Succeeded + s.Recovered, "retryable_failure": s.RetryableFailures, "final_failure": s.FinalFailures,
	})
	w.counter("retry_retries_total", "Attempts begun after the first of a call.", s.Retries)
	suppressed := map[string]uint64{}
	for reason := retry.Deadline; reason <= retry.OverBudget; reason++ {
		suppressed[reason.String()] = s.Suppressed[reason]
	}
	w.counters("retry_suppressed_total", "Retries that would have been made, but for the reason given.", "reason", suppressed)
	if b := p.Config().Budget; b != nil {
		w.gauge("retry_budget_left", "Retries left in the budget; no sample without a budget.", float64(b.Left()))
	}
	return s.HookPanics
}
