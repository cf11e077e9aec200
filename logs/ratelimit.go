package logs

import (
	"context"
	"log/slog"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
)

func (s *subject) limiter(l *ratelimit.Limiter) {
	s.hooks(func() uint64 { return l.Stats().HookPanics })
	s.count("keys evicted whose usage still counted: MaxKeys reached", false, func() uint64 { return l.Stats().Evicted })
	o := s.newOutages()
	h := ratelimit.Hooks{
		StoreFailed: func(ctx context.Context, info ratelimit.Info) {
			o.step(ctx, core.Step{Text: "limit store failed", Warn: true, Key: info.Key, Attrs: []slog.Attr{failure(info.Err)}})
		},
		StoreRecovered: func(ctx context.Context, _ ratelimit.Info) {
			o.step(ctx, core.Step{Text: "limit store recovered"})
		},
	}
	if s.a.cfg.Calls {
		moment := func(msg string, more func(info *ratelimit.Info) []slog.Attr) func(context.Context, ratelimit.Info) {
			return func(ctx context.Context, info ratelimit.Info) {
				attrs := append(more(&info), s.key(info.Key), slog.Int64("cost", info.Cost))
				s.write(ctx, slog.LevelDebug, msg, attrs...)
			}
		}
		h.Allowed = moment("permits granted", func(info *ratelimit.Info) []slog.Attr {
			return []slog.Attr{slog.Int64("remaining", info.Result.Remaining), slog.Duration("waited", info.Waited)}
		})
		h.Rejected = moment("permits refused", func(info *ratelimit.Info) []slog.Attr {
			return []slog.Attr{slog.Int64("limit", info.Result.Limit), slog.Int64("remaining", info.Result.Remaining), slog.Duration("retry_after", info.Result.RetryAfter)}
		})
		h.Queued = moment("waiting for permits", func(*ratelimit.Info) []slog.Attr { return nil })
		h.Canceled = moment("wait for permits canceled", func(info *ratelimit.Info) []slog.Attr {
			return []slog.Attr{slog.Duration("waited", info.Waited), failure(info.Err)}
		})
	}
	s.observe(l.Observe(h))
}
