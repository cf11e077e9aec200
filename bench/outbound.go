package bench

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/outbound/gate"
)

// outboundRows have a take of the limiter as their floor: a gate does that much at least.
func outboundRows(Sizes) []Row {
	ctx := context.Background()
	type connection struct{}
	calls := func(cfg gate.Config) Work {
		g := must(gate.New(cfg))
		return work(func(string) bool {
			return g.Do(ctx, gate.Call{}, func(context.Context) error { return nil }) == nil
		})
	}
	pooled := func() Work {
		p := must(gate.NewPool(must(gate.New(gate.Config{})), gate.PoolConfig[string, connection]{
			Dial: func(context.Context, string) (connection, error) { return connection{}, nil },
		}))
		return work(func(string) bool {
			got, err := gate.Do(ctx, p, "key", func(context.Context, connection) (int, error) { return 1, nil })
			return err == nil && got == 1
		})
	}
	free := []gate.Limit{{N: 1 << 30, Per: time.Second, Burst: 1 << 29}} // a slot is always there
	take := floorOf("Limiter.Take", func() Work {
		l := must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(1<<30, time.Second, 1<<30)}))
		return work(func(string) bool {
			got, err := l.Take(ctx, "key", 1)
			return err == nil && got.Allowed
		})
	})
	return []Row{
		{Name: "gate: a call without contention", Subjects: []Subject{
			ours("Gate.Do", func() Work { return calls(gate.Config{}) }), take,
		}},
		{Name: "gate: a call without contention, with a connection", Subjects: []Subject{
			ours("gate.Do", pooled), take,
		}},
		{Name: "gate: a slot that is free", Subjects: []Subject{
			ours("Gate.Wait", func() Work {
				g := must(gate.New(gate.Config{Limits: free}))
				return work(func(string) bool {
					p, err := g.Wait(ctx, gate.Call{})
					if err == nil {
						p.Done(nil)
					}
					return err == nil
				})
			}), peer("x/time/rate", func() Work {
				l := rate.NewLimiter(1<<30, 1<<30)
				return work(func(string) bool { return l.Wait(ctx) == nil })
			}), take,
		}},
	}
}
