package batch_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/batch"
)

// A record in memory, from Add to its result, in calls of 100.
func BenchmarkRecord(b *testing.B) {
	all := core.Must(batch.New(batch.Config[int, int]{
		Name: "bench", FlushSize: 100, MaxPending: 1 << 30,
		Send: func(_ context.Context, _ string, records []int) ([]batch.Result[int], error) {
			return make([]batch.Result[int], len(records)), nil
		},
	}))
	go func() { _ = all.Run(b.Context()) }()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := all.Add(b.Context(), i); err != nil {
			b.Fatal(err)
		}
	}
	if err := all.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// A Take with many groups of which one is due.
func BenchmarkManyGroups(b *testing.B) {
	all := core.Must(batch.New(batch.Config[string, int]{
		Name: "bench", FlushAfter: time.Hour, MaxPending: 1 << 30, Option: func(r string) string { return r },
		Send: func(_ context.Context, _ string, records []string) ([]batch.Result[int], error) {
			return make([]batch.Result[int], len(records)), nil
		},
	}))
	for i := range 100_000 {
		if _, err := all.Add(b.Context(), strconv.Itoa(i)); err != nil {
			b.Fatal(err)
		}
	}
	go func() { _ = all.Run(b.Context()) }()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := all.Add(b.Context(), "one"); err != nil {
			b.Fatal(err)
		}
		if err := all.Flush(b.Context(), "one"); err != nil {
			b.Fatal(err)
		}
	}
}
