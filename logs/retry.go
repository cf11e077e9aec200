package logs

import (
	"context"
	"log/slog"

	"github.com/gresil/gresil/core/retry"
)

func (s *subject) retry(p *retry.Policy) {
	s.hooks(func() uint64 { return p.Stats().HookPanics })
	if !s.a.cfg.Calls {
		return
	}
	moment := func(msg string) func(context.Context, retry.Info) {
		return func(ctx context.Context, info retry.Info) { s.write(ctx, slog.LevelDebug, msg, retryAttrs(&info)...) }
	}
	s.observe(p.Observe(retry.Hooks{
		Retried:    moment("attempt failed, a retry follows"),
		Recovered:  moment("retry succeeded"),
		Exhausted:  moment("retries exhausted"),
		Ignored:    moment("error is not retried"),
		Suppressed: moment("retry suppressed"),
	}))
}

func retryAttrs(info *retry.Info) []slog.Attr {
	attrs := []slog.Attr{slog.Int("retry", info.Retry), slog.Duration("elapsed", info.Elapsed), failure(info.Err)}
	switch info.Verdict { //nolint:exhaustive // the others have no further attributes
	case retry.Again:
		source := "backoff"
		if info.FromRetryAfter {
			source = "retry_after"
		}
		return append(attrs, slog.Duration("delay", info.Delay), slog.String("source", source))
	case retry.Done, retry.Exhausted, retry.Ignored:
		return attrs
	}
	return append(attrs, slog.String("reason", info.Verdict.String()), slog.Duration("delay", info.Delay))
}
