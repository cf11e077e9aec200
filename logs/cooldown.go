package logs

import (
	"context"
	"log/slog"

	"github.com/gresil/gresil/core/cooldown"
)

func (s *subject) cooldown(c *cooldown.Cooldown) {
	s.hooks(func() uint64 { return c.Stats().HookPanics })
	s.count("cooldowns evicted: MaxKeys reached", false, func() uint64 { return c.Stats().Evicted })
	h := cooldown.Hooks{
		Held: func(ctx context.Context, info cooldown.Info) {
			s.write(ctx, slog.LevelInfo, "calls are held back", s.key(info.Key), slog.Time("until", info.Until))
		},
		Resumed: func(ctx context.Context, info cooldown.Info) {
			s.write(ctx, slog.LevelInfo, "calls are made again", s.key(info.Key))
		},
		StoreFailed: func(ctx context.Context, info cooldown.Info) {
			s.write(ctx, slog.LevelWarn, "cooldown store failed", failure(info.Err))
		},
		StoreRecovered: func(ctx context.Context, _ cooldown.Info) {
			s.write(ctx, slog.LevelInfo, "cooldown store recovered")
		},
	}
	if s.a.cfg.Calls {
		moment := func(msg string) func(context.Context, cooldown.Info) {
			return func(ctx context.Context, info cooldown.Info) {
				s.write(ctx, slog.LevelDebug, msg, s.key(info.Key), slog.Duration("waited", info.Waited))
			}
		}
		h.Waited, h.Rejected = moment("call was held back"), moment("call rejected, since the key is held")
	}
	s.observe(c.Observe(h))
}
