package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/outbound/dispatch"
)

// The cost of a call without contention, in the same run as that of a take of a limiter.
func BenchmarkDo(b *testing.B) {
	ctx := context.Background()
	do := func(ctx context.Context, cfg config) func(*testing.B) {
		d := core.Must(dispatch.New(cfg))
		call := func(context.Context, none) (int, error) { return 0, nil }
		return func(b *testing.B) {
			b.Helper()
			b.ReportAllocs()
			for b.Loop() {
				_, _ = dispatch.Do(ctx, d, "key", call)
			}
		}
	}
	b.Run("a take", func(b *testing.B) {
		limiter := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(1<<30, time.Second, 1<<30)}))
		b.ReportAllocs()
		for b.Loop() {
			_, _ = limiter.Take(ctx, "key", 1)
		}
	})
	dial := func(context.Context, string) (none, error) { return none{}, nil }
	cancelable, cancel := context.WithCancel(ctx)
	defer cancel()
	b.Run("places", do(ctx, config{}))
	b.Run("connections", do(ctx, config{Dial: dial}))
	b.Run("accounts", do(ctx, config{Dial: dial, Account: ownAccount}))
	b.Run("cancelable", do(cancelable, config{Dial: dial}))
}
