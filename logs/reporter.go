package logs

import (
	"context"
	"log/slog"
	"slices"

	"github.com/gresil/gresil/core"
)

// reporter logs a service, such as a dispatcher or a pacer, which reports its steps itself.
func (s *subject) reporter(r core.Reporter) {
	s.hooks(func() uint64 {
		_, panics := r.Figures()
		return panics
	})
	o := s.newOutages()
	s.observe(r.ObserveSteps(s.a.cfg.Calls, func(ctx context.Context, step core.Step) {
		level := slog.LevelInfo
		switch {
		case step.Outage:
			o.step(ctx, step)
			return
		case step.Call:
			level = slog.LevelDebug
		case step.Warn:
			level = slog.LevelWarn
		}
		s.write(ctx, level, step.Text, s.attrs(step)...)
	}))
}

// attrs returns the key and the attributes of a step, and more.
func (s *subject) attrs(step core.Step, more ...slog.Attr) []slog.Attr {
	return slices.Concat([]slog.Attr{s.key(step.Key)}, step.Attrs, more)
}
