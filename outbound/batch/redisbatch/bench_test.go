package redisbatch

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/batch"
)

// records makes n records of 100 bytes over some options.
func records(n, options int, change ...func(*batch.Record)) []batch.Record {
	made := make([]batch.Record, n)
	for i := range made {
		payload := fmt.Appendf(nil, `{"id":%08d,"email":"user%08d@example.com","name":"N. N. %08d","list":"newsletter"}`, i, i*7919%n, i)
		made[i] = batch.Record{ID: fmt.Sprintf("%016x", i*2654435761), Option: "option" + strconv.Itoa(i%options), Payload: payload, Size: len(payload)}
		for _, f := range change {
			f(&made[i])
		}
	}
	return made
}

// adders adds records from 512 goroutines.
func adders(tb testing.TB, s batch.Store, made []batch.Record) {
	tb.Helper()
	ctx := context.Background()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 512 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(len(made)); i = next.Add(1) {
				if _, err := s.Add(ctx, "bench", &made[i-1], plenty); err != nil {
					tb.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// pushers is the floor: RPUSH of n values of 100 bytes in pipelines of 256, one after the other.
func pushers(tb testing.TB, client *redis.Client, n int) {
	tb.Helper()
	ctx, value := context.Background(), make([]byte, 100)
	for n > 0 {
		_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for range min(n, 256) {
				p.RPush(ctx, "floor", value)
			}
			return nil
		})
		require.NoError(tb, err)
		n -= 256
	}
}

// BenchmarkAdd alternates with the floor, and reports the ratio of the throughputs.
func BenchmarkAdd(b *testing.B) {
	for _, c := range []struct {
		name    string
		options int
		change  []func(*batch.Record)
	}{
		{"plain", 1, nil},
		{"100 options", 100, nil},
		{"keys", 1, []func(*batch.Record){func(r *batch.Record) { r.Key = r.ID }}},
		{"calls", 1, []func(*batch.Record){func(r *batch.Record) { r.ReplyTo = []batch.Address{{Process: "p", Call: r.ID}} }}},
	} {
		b.Run(c.name, func(b *testing.B) {
			ctx := context.Background()
			client := startServer(b).client(b)
			s, err := New(client, Config{})
			require.NoError(b, err)
			b.ReportAllocs()
			var floor, ours, floorCPU, server, own time.Duration
			const chunk = 50_000
			made := records(chunk, c.options, c.change...)
			for left := b.N; left > 0; left -= chunk {
				require.NoError(b, client.FlushAll(ctx).Err())
				begun := time.Now()
				b.StopTimer()
				at, me := redistest.CPU(b, client.Info(ctx, "cpu").Val()), redistest.OwnCPU()
				pushers(b, client, chunk)
				floor += time.Since(begun)
				floorCPU += redistest.CPU(b, client.Info(ctx, "cpu").Val()) - at + redistest.OwnCPU() - me
				at, me = redistest.CPU(b, client.Info(ctx, "cpu").Val()), redistest.OwnCPU()
				b.StartTimer()
				begun = time.Now()
				adders(b, s, made)
				ours += time.Since(begun)
				b.StopTimer()
				server += redistest.CPU(b, client.Info(ctx, "cpu").Val()) - at
				own += redistest.OwnCPU() - me
				b.StartTimer()
			}
			b.ReportMetric(float64(floor)/float64(ours), "of-RPUSH")
			b.ReportMetric(float64(floorCPU)/float64(b.N)/1000, "RPUSH-us/op")
			b.ReportMetric(float64(server)/float64(b.N)/1000, "redis-us/op")
			b.ReportMetric(float64(own)/float64(b.N)/1000, "client-us/op")
		})
	}
}

// BenchmarkLease leases and settles batches of 200 records, of a group that has few others or many.
func BenchmarkLease(b *testing.B) {
	for _, many := range []int{1000, 200_000} {
		b.Run(strconv.Itoa(many), func(b *testing.B) {
			client := startServer(b).client(b)
			s, err := New(client, Config{})
			require.NoError(b, err)
			ctx, made := context.Background(), records(many, 1)
			adders(b, s, made)
			var server time.Duration
			left := many
			b.ResetTimer()
			for i := range b.N {
				b.StopTimer()
				if left < 200 {
					adders(b, s, made[left:])
					left = many
				}
				at := redistest.CPU(b, client.Info(ctx, "cpu").Val())
				b.StartTimer()
				batched, _, err := s.Lease(ctx, "bench", batch.Terms{ID: strconv.Itoa(i), MaxRecords: 200, Lease: time.Hour})
				require.NoError(b, err)
				require.Len(b, batched.Records, 200)
				require.NoError(b, s.Settle(ctx, "bench", batch.Settlement{ID: batched.ID, Delivery: 1}))
				left -= 200
				b.StopTimer()
				server += redistest.CPU(b, client.Info(ctx, "cpu").Val()) - at
				b.StartTimer()
			}
			b.ReportMetric(float64(server)/float64(b.N)/200/1000, "redis-us/record")
		})
	}
}
