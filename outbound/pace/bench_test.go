package pace_test

import (
	"context"
	"testing"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/outbound/pace"
)

// BenchmarkPermit compares a permit whose slot is now with a take.
func BenchmarkPermit(b *testing.B) {
	ctx := context.Background()
	rates := []pace.Rate{{Calls: 1 << 30, Per: time.Second, Burst: 1 << 20}}
	b.Run("take", func(b *testing.B) {
		l := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(1, time.Nanosecond, 1<<20)}))
		b.ReportAllocs()
		for b.Loop() {
			if r, err := l.Take(ctx, "vendor", 1); err != nil || !r.Allowed {
				b.Fatal(r, err)
			}
		}
	})
	for name, cfg := range map[string]pace.Config{"wait": {}, "wait with Refresh": {Refresh: func(context.Context) ([]pace.Rate, error) { return rates, nil }}} {
		b.Run(name, func(b *testing.B) {
			cfg.Rates = rates
			p := newPacer(b, cfg) //nolint:contextcheck // it needs none
			b.ReportAllocs()
			for b.Loop() {
				if permit, err := p.Wait(ctx, "vendor", 1); err != nil || permit.Cost != 1 {
					b.Fatal(permit, err)
				}
			}
			if p.Stats().Waited > 0 {
				b.Fatal("it waited")
			}
		})
	}
	b.Run("reserve", func(b *testing.B) {
		p := newPacer(b, pace.Config{Rates: rates}) //nolint:contextcheck // likewise
		b.ReportAllocs()
		for b.Loop() {
			if permit, err := p.Reserve(ctx, "vendor", 1); err != nil || permit.Cost != 1 {
				b.Fatal(permit, err)
			}
		}
	})
}
