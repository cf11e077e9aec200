package batch

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gresil/gresil/outbound/pace"
	"github.com/stretchr/testify/require"
)

func TestScratch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := pace.New(pace.Config{Rates: []pace.Rate{{Calls: 30, Per: time.Minute}}})
		require.NoError(t, err)
		start := time.Now()
		b, err := New(Config[int, string]{MaxRecords: 200, Pacer: p, Send: func(ctx context.Context, o string, rs []int) ([]Result[string], error) {
			fmt.Println(time.Since(start), o, len(rs), IdempotencyKey(ctx))
			res := make([]Result[string], len(rs))
			for i, r := range rs {
				res[i].Value = fmt.Sprint(r)
			}
			return res, nil
		}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		go b.Run(ctx)
		for i := range 379 {
			_, err := b.Add(ctx, i)
			require.NoError(t, err)
		}
		v, err := b.Call(ctx, 5)
		fmt.Println(v, err)
		require.NoError(t, b.Drain(ctx))
		require.NoError(t, b.Close())
		fmt.Printf("%+v\n", b.Stats())
		cancel()
	})
}

func BenchmarkAdd(b *testing.B) {
	b.ReportAllocs()
	q, _ := New(Config[int, string]{MaxRecords: 200, MaxPending: 1 << 30, Send: func(ctx context.Context, o string, rs []int) ([]Result[string], error) { return nil, nil }})
	for b.Loop() {
		q.Add(b.Context(), 5)
	}
}
