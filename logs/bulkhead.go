package logs

import (
	"context"
	"log/slog"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
)

func (s *subject) bulkhead(b *bulkhead.Bulkhead) {
	s.hooks(func() uint64 { return b.Stats().HookPanics })
	o := s.newOutages()
	h := bulkhead.Hooks{
		LimitChanged: func(ctx context.Context, info bulkhead.Info) {
			limits := []slog.Attr{s.key(info.Key), slog.Int("old", info.OldLimit), slog.Int("limit", info.Limit)}
			switch {
			case info.Limit < info.OldLimit:
				s.write(ctx, slog.LevelInfo, "limit of calls in flight lowered", limits...)
			case s.a.cfg.Calls:
				s.write(ctx, slog.LevelDebug, "limit of calls in flight raised", limits...)
			}
		},
		Lost: func(ctx context.Context, info bulkhead.Info) {
			s.write(ctx, slog.LevelWarn, "call lost its permits", s.key(info.Key), slog.Int("weight", info.Weight), failure(info.Err))
		},
		StoreFailed: func(ctx context.Context, info bulkhead.Info) {
			o.step(ctx, core.Step{Text: "bulkhead store failed", Warn: true, Attrs: []slog.Attr{failure(info.Err)}})
		},
		StoreRecovered: func(ctx context.Context, _ bulkhead.Info) {
			o.step(ctx, core.Step{Text: "bulkhead store recovered"})
		},
	}
	if s.a.cfg.Calls {
		moment := func(msg string) func(context.Context, bulkhead.Info) {
			return func(ctx context.Context, info bulkhead.Info) {
				s.write(ctx, slog.LevelDebug, msg, s.key(info.Key), slog.Int("weight", info.Weight), slog.Duration("waited", info.Waited))
			}
		}
		h.Waited, h.Rejected = moment("call waited for its permits"), moment("call rejected, since the bulkhead is full")
	}
	s.observe(b.Observe(h))
}
