package bench

import (
	"context"
	"time"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/outbound/dispatch"
	"github.com/gresil/gresil/outbound/pace"
)

// outboundRows have a take of the limiter as their floor: a vendor's gate does that much at least.
func outboundRows(Sizes) []Row {
	ctx := context.Background()
	type connection struct{}
	calls := func(cfg dispatch.Config[string, connection]) Work {
		d := must(dispatch.New(cfg))
		call := func(context.Context, connection) (int, error) { return 1, nil }
		return work(func(string) bool {
			got, err := dispatch.Do(ctx, d, "key", call)
			return err == nil && got == 1
		})
	}
	dial := func(context.Context, string) (connection, error) { return connection{}, nil }
	take := floorOf("Limiter.Take", func() Work {
		l := must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(1<<30, time.Second, 1<<30)}))
		return work(func(string) bool {
			got, err := l.Take(ctx, "key", 1)
			return err == nil && got.Allowed
		})
	})
	return []Row{
		{Name: "dispatch: a call without contention", Subjects: []Subject{
			ours("dispatch.Do", func() Work { return calls(dispatch.Config[string, connection]{}) }), take,
		}},
		{Name: "dispatch: a call without contention, with a connection", Subjects: []Subject{
			ours("dispatch.Do", func() Work { return calls(dispatch.Config[string, connection]{Dial: dial}) }), take,
		}},
		{Name: "pace: a permit that is free", Subjects: []Subject{
			ours("Pacer.Wait", func() Work {
				p := must(pace.New(pace.Config{Rates: []pace.Rate{{Calls: 1 << 30, Per: time.Second, Burst: 1 << 29}}})) //nolint:contextcheck // it needs none
				return work(func(string) bool {
					_, err := p.Wait(ctx, "key", 1)
					return err == nil
				})
			}), take,
		}},
	}
}
