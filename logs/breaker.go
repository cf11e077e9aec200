package logs

import (
	"context"
	"log/slog"

	"github.com/gresil/gresil/core/breaker"
)

func (s *subject) breaker(b *breaker.Breaker) {
	s.hooks(func() uint64 { return b.Stats().HookPanics })
	s.observe(b.Observe(s.breakerHooks()))
}

func (s *subject) breakers(g *breaker.Group) {
	s.hooks(func() uint64 { return g.Stats().HookPanics })
	s.count("calls shared a breaker, since the group is full", false, func() uint64 { return g.Stats().Overflowed })
	s.observe(g.Observe(s.breakerHooks()))
}

func (s *subject) breakerHooks() breaker.Hooks {
	h := breaker.Hooks{
		StateChanged: func(ctx context.Context, info breaker.Info) {
			s.write(ctx, slog.LevelInfo, "circuit breaker changed its state", s.key(info.Key),
				slog.String("from", info.From.String()), slog.String("to", info.State.String()), slog.Bool("manual", info.Manual),
				slog.Float64("failure_rate", info.FailureRate), slog.Float64("slow_rate", info.SlowRate), slog.Duration("open_for", info.OpenFor), slog.Int("opened", info.Opened))
		},
		RateExceeded: func(ctx context.Context, info breaker.Info) {
			s.write(ctx, slog.LevelInfo, "circuit breaker would have opened", s.key(info.Key),
				slog.Bool("slow", info.Slow), slog.Float64("failure_rate", info.FailureRate), slog.Float64("slow_rate", info.SlowRate))
		},
		Reset: func(ctx context.Context, info breaker.Info) {
			s.write(ctx, slog.LevelInfo, "circuit breaker was reset", s.key(info.Key))
		},
	}
	if s.a.cfg.Calls {
		h.Recorded = func(ctx context.Context, info breaker.Info) {
			s.write(ctx, slog.LevelDebug, "circuit breaker recorded a call", s.key(info.Key), slog.String("state", info.State.String()),
				slog.String("outcome", info.Outcome.String()), slog.Duration("duration", info.Duration), slog.Bool("slow", info.Slow), slog.Float64("failure_rate", info.FailureRate), slog.Float64("slow_rate", info.SlowRate))
		}
		h.Rejected = func(ctx context.Context, info breaker.Info) {
			s.write(ctx, slog.LevelDebug, "circuit breaker rejected a call", s.key(info.Key), slog.String("state", info.State.String()),
				slog.Duration("retry_after", info.Err.RetryAfter()))
		}
	}
	return h
}
