package timeout

import (
	"context"
	"log/slog"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

func (t *Timeout) figures() (f registry.Figures) {
	s := t.Stats()
	f.Counts("calls_total", "Calls that ended, by result.", "result",
		"success", s.Succeeded, "failure", s.Failed, "timeout", s.TimedOut, "canceled", s.Canceled)
	f.Add("abandoned", "Calls that timed out and still run, although no caller waits for them.", float64(s.Abandoned))
	if limit := t.Limit(); limit > 0 {
		f.Add("limit_seconds", "Time limit of a call; no sample without a limit.", limit.Seconds())
	}
	return f
}

// emit emits the event of a call that timed out.
func (t *Timeout) emit(caller, limited context.Context, limit time.Duration, err error) {
	if !t.life.Calls() {
		return
	}
	elapsed := limit
	if deadline, ok := limited.Deadline(); ok {
		elapsed += max(0, time.Since(deadline))
	}
	t.life.Emit(caller, registry.Event{Text: "timed out", Call: true, Attrs: []slog.Attr{
		slog.Duration("limit", limit), slog.Duration("elapsed", elapsed), slog.Any("err", err),
	}})
}
