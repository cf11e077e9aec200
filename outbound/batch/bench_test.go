package batch_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/outbound/batch"
)

type person struct {
	Email, Name string
	Age         int
}

// adder adds records to a group in memory, and sends them from time to time.
func adder(tb testing.TB, cfg batch.Config[person, string]) (add func(), send func()) {
	tb.Helper()
	cfg.Option = func(person) string { return "people:merge" }
	cfg.MaxRecords, cfg.MaxPending, cfg.FlushAfter = 10_000, 1<<30, time.Nanosecond
	cfg.Send = func(_ context.Context, _ string, records []person) ([]batch.Result[string], error) {
		return make([]batch.Result[string], len(records)), nil
	}
	b, err := batch.New(cfg)
	require.NoError(tb, err)
	ctx := context.Background()
	p := person{"a@example.com", "A", 42}
	return func() {
			if _, err := b.Add(ctx, p); err != nil {
				tb.Fatal(err)
			}
		}, func() {
			_, err := b.Delete(ctx, "people:merge")
			require.NoError(tb, err)
		}
}

// BenchmarkAdd compares a record for a group in memory with a take.
func BenchmarkAdd(b *testing.B) {
	b.Run("take", func(b *testing.B) {
		l := core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.TokenBucket(1, time.Nanosecond, 1<<20)}))
		b.ReportAllocs()
		for b.Loop() {
			if r, err := l.Take(context.Background(), "vendor", 1); err != nil || !r.Allowed {
				b.Fatal(r, err)
			}
		}
	})
	for name, cfg := range map[string]batch.Config[person, string]{
		"plain":  {},
		"unique": {Unique: batch.UntilFlushed, Key: func(p person) string { return p.Email }},
	} {
		b.Run(name, func(b *testing.B) {
			add, send := adder(b, cfg)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				add()
				if n++; n%10_000 == 0 {
					b.StopTimer()
					send()
					b.StartTimer()
				}
			}
		})
	}
}

func TestAddAllocatesTwice(t *testing.T) {
	for name, cfg := range map[string]batch.Config[person, string]{
		"plain":  {},
		"unique": {Unique: batch.UntilFlushed, Key: func(p person) string { return p.Email }},
	} {
		add, _ := adder(t, cfg)
		allocations := testing.AllocsPerRun(10_000, add)
		require.LessOrEqual(t, allocations, 2.0, name)
	}
}
