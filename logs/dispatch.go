package logs

import (
	"context"
	"log/slog"

	"github.com/gresil/gresil/core"
)

// dispatch logs a dispatcher, which reports its steps itself.
func (s *subject) dispatch(r core.Reporter) {
	s.hooks(func() uint64 {
		_, panics := r.Figures()
		return panics
	})
	s.detach = append(s.detach, r.ObserveSteps(s.a.cfg.Calls, func(ctx context.Context, step core.Step) {
		level := slog.LevelInfo
		if step.Call {
			level = slog.LevelDebug
		}
		s.write(ctx, level, step.Text, append([]slog.Attr{s.key(step.Key)}, step.Attrs...)...)
	}))
}
