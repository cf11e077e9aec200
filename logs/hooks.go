package logs

import (
	"context"
	"log/slog"

	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/core/timeout"
)

func (s *subject) retry() retry.Hooks {
	moment := func(msg string) func(context.Context, retry.Info) {
		return func(ctx context.Context, info retry.Info) {
			attrs := []slog.Attr{slog.Int("retry", info.Retry), slog.Duration("elapsed", info.Elapsed), failure(info.Err)}
			switch info.Verdict { //nolint:exhaustive // the others have no further attributes
			case retry.Again:
				source := "backoff"
				if info.FromRetryAfter {
					source = "retry_after"
				}
				attrs = append(attrs, slog.Duration("delay", info.Delay), slog.String("source", source))
			case retry.Done, retry.Exhausted, retry.Ignored:
			default:
				attrs = append(attrs, slog.String("reason", info.Verdict.String()), slog.Duration("delay", info.Delay))
			}
			s.write(ctx, slog.LevelDebug, msg, attrs...)
		}
	}
	return retry.Hooks{
		Retried:    moment("attempt failed, a retry follows"),
		Recovered:  moment("retry succeeded"),
		Exhausted:  moment("retries exhausted"),
		Ignored:    moment("error is not retried"),
		Suppressed: moment("retry suppressed"),
	}
}

func (s *subject) breaker() breaker.Hooks {
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
				slog.String("outcome", info.Outcome.String()), slog.Duration("duration", info.Duration), slog.Bool("slow", info.Slow),
				slog.Float64("failure_rate", info.FailureRate), slog.Float64("slow_rate", info.SlowRate))
		}
		h.Rejected = func(ctx context.Context, info breaker.Info) {
			s.write(ctx, slog.LevelDebug, "circuit breaker rejected a call", s.key(info.Key), slog.String("state", info.State.String()),
				slog.Duration("retry_after", info.Err.RetryAfter()))
		}
	}
	return h
}

func (s *subject) limiter() ratelimit.Hooks {
	s.outages = newOutages(s)
	h := s.outages.hooks()
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
	return h
}

func (s *subject) timeout() timeout.Hooks {
	return timeout.Hooks{TimedOut: func(ctx context.Context, info timeout.Info) {
		s.write(ctx, slog.LevelDebug, "timed out", slog.Duration("limit", info.Limit), slog.Duration("elapsed", info.Elapsed), failure(info.Err))
	}}
}

// failure returns the attribute of an error; of nil it is empty, and is not written.
func failure(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.Any("err", err)
}

func (s *subject) cooldown() cooldown.Hooks {
	h := cooldown.Hooks{
		Held: func(ctx context.Context, info cooldown.Info) {
			s.write(ctx, slog.LevelInfo, "calls are held back", s.key(info.Key), slog.Time("until", info.Until))
		},
		Resumed: func(ctx context.Context, info cooldown.Info) {
			s.write(ctx, slog.LevelInfo, "calls are made again", s.key(info.Key))
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
	return h
}
