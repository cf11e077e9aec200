package bulkhead_test

import (
	"testing"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
)

func BenchmarkAcquire(b *testing.B) {
	for _, c := range []struct{ name, key string }{{"", ""}, {" keyed", "vendor/account"}} {
		for _, full := range []bool{false, true} {
			name := "free"
			limit := 1000
			if full {
				name, limit = "full", 1
			}
			h := core.Must(bulkhead.New(bulkhead.Config{Limit: limit, MaxQueue: -1}))
			ctx := b.Context()
			if full {
				core.Must(h.Acquire(ctx, c.key, 1))
			}
			call := func() {
				p, err := h.Acquire(ctx, c.key, 1)
				if err == nil {
					p.Done(core.Success)
				}
			}
			b.Run(name+c.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					call()
				}
			})
			b.Run(name+c.name+",parallel", func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						call()
					}
				})
			})
		}
	}
}
