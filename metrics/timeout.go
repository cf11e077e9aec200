package metrics

import "github.com/gresil/gresil/core/timeout"

func timeoutKinds(*Collector, Config) []kind {
	return []kind{kindOf("timeout", collectTimeout)}
}

func collectTimeout(w *writer, t *timeout.Timeout) (panics uint64) {
	s := t.Stats()
	w.counters("timeout_calls_total", "Calls that ended, by result.", "result", map[string]uint64{
		"success": s.Succeeded, "failure": s.Failed, "timeout": s.TimedOut, "canceled": s.Canceled,
	})
	w.gauge("timeout_abandoned", "Calls that timed out and still run, although no caller waits for them.", float64(s.Abandoned))
	if t.Limit() > 0 {
		w.gauge("timeout_limit_seconds", "Time limit of a call; no sample without a limit.", t.Limit().Seconds())
	}
	return s.HookPanics
}
