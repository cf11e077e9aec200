package logs

import (
	"context"
	"log/slog"

	"github.com/gresil/gresil/core/timeout"
)

func (s *subject) timeout(t *timeout.Timeout) {
	s.hooks(func() uint64 { return t.Stats().HookPanics })
	if s.a.cfg.Calls {
		s.observe(t.Observe(timeout.Hooks{TimedOut: func(ctx context.Context, info timeout.Info) {
			s.write(ctx, slog.LevelDebug, "timed out", slog.Duration("limit", info.Limit), slog.Duration("elapsed", info.Elapsed), failure(info.Err))
		}}))
	}
}
