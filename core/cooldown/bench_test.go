package cooldown_test

import (
	"testing"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/cooldown"
)

func BenchmarkAcquire(b *testing.B) {
	for _, c := range []struct{ name, held string }{{"nothing held", ""}, {"another key held", "other"}, {"rejected", key}} {
		b.Run(c.name, func(b *testing.B) {
			gate := core.Must(cooldown.New(cooldown.Config{MaxHold: cooldown.LongestHold}))
			if c.held != "" {
				gate.Hold(b.Context(), c.held, 24*time.Hour)
			}
			ctx := b.Context()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					p, err := gate.Acquire(ctx, key)
					if err == nil && p.Ready() {
						p.Done(core.Success)
					}
				}
			})
		})
	}
}
