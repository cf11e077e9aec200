package logs

import (
	"context"
	"log/slog"

	"github.com/gresil/gresil/core"
)

// reporter logs a service, such as a dispatcher or a pacer, which reports its steps itself.
func (s *subject) reporter(r core.Reporter) {
	s.hooks(func() uint64 {
		_, panics := r.Figures()
		return panics
	})
	s.observe(r.ObserveSteps(s.a.cfg.Calls, func(ctx context.Context, step core.Step) {
		level := slog.LevelInfo
		switch {
		case step.Call:
			level = slog.LevelDebug
		case step.Warn:
			level = slog.LevelWarn
		}
		s.write(ctx, level, step.Text, append([]slog.Attr{s.key(step.Key)}, step.Attrs...)...)
	}))
}
