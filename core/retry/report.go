package retry

import (
	"context"
	"log/slog"

	"github.com/gresil/gresil/internal/registry"
)

func (p *Policy) figures() (f registry.Figures) {
	s := p.Stats()
	const calls = "Calls that ended, by result and by whether there was a retry."
	f.Count("calls_total", calls, s.Succeeded, "result", "success", "retried", "false")
	f.Count("calls_total", calls, s.Recovered, "result", "success", "retried", "true")
	f.Count("calls_total", calls, s.Failed, "result", "failure", "retried", "false")
	f.Count("calls_total", calls, s.FailedRetried, "result", "failure", "retried", "true")
	f.Counts("attempts_total", "Attempts that ended, including first ones.", "result",
		"success", s.Succeeded+s.Recovered, "retryable_failure", s.RetryableFailures, "final_failure", s.FinalFailures)
	f.Count("retries_total", "Attempts begun after the first of a call.", s.Retries)
	for reason := Deadline; reason <= OverBudget; reason++ {
		f.Count("suppressed_total", "Retries that would have been made, but for the reason given.", s.Suppressed[reason], "reason", reason.String())
	}
	const waits = "Duration of waits before retries, by source."
	f.Histogram("backoff_seconds", waits, &p.counters.waits[0], "source", "backoff")
	f.Histogram("backoff_seconds", waits, &p.counters.waits[1], "source", "retry_after")
	if b := p.Config().Budget; b != nil {
		f.Add("budget_left", "Retries left in the budget; no sample without a budget.", float64(b.Left()))
	}
	return f
}

// emit emits the event of a verdict.
func (p *Policy) emit(ctx context.Context, info *Info) {
	if !p.life.Calls() {
		return
	}
	e := registry.Event{Call: true, Attrs: []slog.Attr{slog.Int("retry", info.Retry), slog.Duration("elapsed", info.Elapsed)}}
	if info.Err != nil {
		e.Attrs = append(e.Attrs, slog.Any("err", info.Err))
	}
	switch info.Verdict {
	case Again:
		source := "backoff"
		if info.FromRetryAfter {
			source = "retry_after"
		}
		e.Text, e.Attrs = "attempt failed, a retry follows", append(e.Attrs, slog.Duration("delay", info.Delay), slog.String("source", source))
	case Done:
		e.Text = "retry succeeded"
	case Exhausted:
		e.Text = "retries exhausted"
	case Ignored:
		e.Text = "error is not retried"
	case Deadline, RetryAfterTooLong, NotReplayable, Canceled, Rejected, OverBudget:
		e.Text, e.Attrs = "retry suppressed", append(e.Attrs, slog.String("reason", info.Verdict.String()), slog.Duration("delay", info.Delay))
	}
	p.life.Emit(ctx, e)
}
