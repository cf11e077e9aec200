package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/stores/denycache"
)

// plainGCRA is the floor: the least that a script does which limits at all.
const plainGCRA = `local t = redis.call('TIME')
local now = (t[1] - 1577836800) * 1000000 + t[2]
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
local emission, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])
if tat < now then tat = now end
local new = tat + emission
if new - tolerance > now then return {0, new - tolerance - now} end
redis.call('SET', KEYS[1], string.format('%d', new), 'PX', math.ceil((new - now) / 1000) + 1)
return {1, new - now}`

// callers runs f from 64 goroutines on so many keys, b.N times in all, and reports the CPU time
// of both sides.
func callers(ctx context.Context, b *testing.B, client *redis.Client, many int64, f func(key string) error) {
	b.Helper()
	var next atomic.Int64
	keys := make([]string, many)
	for i := range keys {
		keys[i] = fmt.Sprintf("10.0.%d.%d", i/256, i%256)
	}
	server, own := redistest.CPU(b, client.Info(ctx, "cpu").Val()), ownCPU()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := f(keys[i*7919%many]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(redistest.CPU(b, client.Info(ctx, "cpu").Val())-server)/float64(b.N)/1000, "redis-us/op")
	b.ReportMetric(float64(ownCPU()-own)/float64(b.N)/1000, "client-us/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// ownCPU returns the CPU time that this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkDecision(b *testing.B) {
	ctx := context.Background()
	client := startServer(b).client(b)
	b.Run("floor", func(b *testing.B) {
		gcra := redis.NewScript(plainGCRA)
		callers(ctx, b, client, 10_000, func(key string) error {
			return gcra.Run(ctx, client, []string{"gcra:" + key}, "1000", "100000").Err()
		})
	})
	for _, mode := range []Mode{Strict, Coalesced} {
		for _, c := range []struct {
			name  string
			limit ratelimit.Limit
		}{
			{"bucket", ratelimit.TokenBucket(1000, time.Second, 100)},
			{"window", ratelimit.FixedWindow(1000, time.Second)},
			{"counter", ratelimit.SlidingCounter(1000, time.Second)},
			{"log", ratelimit.SlidingLog(100, time.Second)},
			{"joined", ratelimit.FixedWindow(1000, time.Second).And(ratelimit.TokenBucket(1000, time.Minute, 10_000))},
		} {
			b.Run(string(mode)+" "+c.name, func(b *testing.B) {
				table := open(b, newStore(b, client, Config{Mode: mode}), string(mode)+c.name)
				id := planned(b, table, c.limit)
				callers(ctx, b, client, 10_000, func(key string) error {
					_, err := table.Apply(ctx, key, id, limits.Op{Cost: 1})
					return err
				})
			})
		}
	}
}

// BenchmarkHotKey is one key that all want.
func BenchmarkHotKey(b *testing.B) {
	ctx := context.Background()
	client := startServer(b).client(b)
	granted, refused := ratelimit.TokenBucket(1_000_000, time.Second, 1_000_000), ratelimit.FixedWindow(1000, time.Hour)
	for _, mode := range []Mode{Strict, Coalesced} {
		for _, c := range []struct {
			name  string
			limit ratelimit.Limit
			cache int
		}{{"granted", granted, 0}, {"refused", refused, 0}, {"denied", refused, 100}} {
			b.Run(string(mode)+" "+c.name, func(b *testing.B) {
				var store ratelimit.Store = newStore(b, client, Config{Mode: mode})
				if c.cache > 0 {
					store = core.Must(denycache.New(store, denycache.Config{MaxKeys: c.cache}))
				}
				table := open(b, store, string(mode)+c.name)
				id := planned(b, table, c.limit)
				callers(ctx, b, client, 1, func(key string) error {
					_, err := table.Apply(ctx, key, id, limits.Op{Cost: 1})
					return err
				})
			})
		}
	}
}

func BenchmarkHotKeys(b *testing.B) {
	ctx := context.Background()
	client := startServer(b).client(b)
	table := open(b, newStore(b, client, Config{Mode: Lease}), "hot")
	id := planned(b, table, ratelimit.TokenBucket(10, time.Second, 1<<28))
	callers(ctx, b, client, 100, func(key string) error {
		_, err := table.Apply(ctx, key, id, limits.Op{Cost: 1})
		return err
	})
}
