package retry

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/internal/stripe"
	"github.com/gresil/gresil/internal/text"
)

// Stats are the counts of a policy.
type Stats struct {
	Succeeded  uint64 // calls whose first attempt succeeded
	Recovered  uint64 // calls that succeeded after a retry
	Failed     uint64 // calls that failed
	Retries    uint64 // attempts after the first
	Suppressed uint64 // retries that were wanted but not made, although MaxAttempts was not reached
}

// String returns the stats in one line, as in "succeeded=120 recovered=3 failed=1 retries=5".
func (s Stats) String() string {
	return strings.TrimSpace(fmt.Sprintf("succeeded=%d recovered=%d failed=%d retries=%d ", s.Succeeded, s.Recovered, s.Failed, s.Retries) +
		text.NonZero("suppressed=%d", s.Suppressed))
}

type counters struct {
	succeeded          stripe.Counter
	recovered, retries atomic.Uint64
	failed             [2]atomic.Uint64 // calls without a retry, and with one
	suppressed         [len(suppressing)]atomic.Uint64
	waits              [2]registry.Histogram // by source
}

// suppressing are the reasons that suppress a retry. Reasons of other adapters count as "other".
//
//nolint:gochecknoglobals // a constant
var suppressing = [...]string{deadline, tooLong, overBudget, rejected, canceled, "not_repeatable", "other"}

var sources = [2]string{"backoff", "retry_after"} //nolint:gochecknoglobals // a constant

// Stats returns the counts so far.
func (p *Policy) Stats() Stats {
	c := &p.counters
	s := Stats{
		Succeeded: c.succeeded.Load(), Recovered: c.recovered.Load(), Failed: c.failed[0].Load() + c.failed[1].Load(),
		Retries: c.retries.Load(),
	}
	for i := range c.suppressed {
		s.Suppressed += c.suppressed[i].Load()
	}
	return s
}

func (p *Policy) figures() (f registry.Figures) {
	c := &p.counters
	const calls = "Calls that ended, by result and by whether there was a retry."
	f.Count("calls_total", calls, c.succeeded.Load(), "result", "success", "retried", "false")
	f.Count("calls_total", calls, c.recovered.Load(), "result", "success", "retried", "true")
	f.Count("calls_total", calls, c.failed[0].Load(), "result", "failure", "retried", "false")
	f.Count("calls_total", calls, c.failed[1].Load(), "result", "failure", "retried", "true")
	f.Count("retries_total", "Attempts begun after the first of a call.", c.retries.Load())
	for i, reason := range suppressing {
		const help = "Retries that would have been made, but for the reason given."
		f.Count("suppressed_total", help, c.suppressed[i].Load(), "reason", reason)
	}
	for i, name := range sources {
		f.Histogram("backoff_seconds", "Duration of waits before retries, by source.", &c.waits[i], "source", name)
	}
	if b := p.Config().Budget; b != nil {
		f.Add("budget_left", "Retries left in the budget; no sample without a budget.", float64(b.Left()))
	}
	return f
}

// failed counts and reports the end of a call. left reports whether MaxAttempts was not reached.
func (c *call) failed(ctx context.Context, why string, left bool, err error) {
	c.policy.counters.failed[min(1, c.attempt-1)].Add(1)
	switch {
	case why == exhausted:
		c.emit(ctx, "retries exhausted", err)
	case why == permanent || !left: // no retry is suppressed
		c.emit(ctx, "error is not retried", err)
	default:
		i := slices.Index(suppressing[:], why)
		if i < 0 {
			i = len(suppressing) - 1
		}
		c.policy.counters.suppressed[i].Add(1)
		c.emit(ctx, "retry suppressed", err, slog.String("reason", why), slog.Duration("delay", c.wait))
	}
}

// emit emits an event of the call.
func (c *call) emit(ctx context.Context, text string, err error, attrs ...slog.Attr) {
	if !c.policy.life.Calls() {
		return
	}
	retry := c.attempt - 1
	if text == "attempt failed, a retry follows" {
		retry++
		attrs = append(attrs, slog.Duration("delay", c.wait), slog.String("source", sources[c.source]))
	}
	elapsed := time.Duration(0)
	if c.timed {
		elapsed = c.policy.now() - c.started
	}
	first := []slog.Attr{slog.Int("retry", retry), slog.Duration("elapsed", elapsed)}
	if err != nil {
		first = append(first, slog.Any("err", err))
	}
	c.policy.life.Emit(ctx, registry.Event{Call: true, Text: text, Attrs: append(first, attrs...)})
}
