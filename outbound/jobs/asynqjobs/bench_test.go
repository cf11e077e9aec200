package asynqjobs_test

import (
	"context"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

const benchWorkers = 16

// BenchmarkBesideAsynq enqueues and processes jobs that are not limited, in turns with plain asynq of
// the same poll intervals, concurrency and task options. It reports the ratio of the rates: 1 is equal.
func BenchmarkBesideAsynq(b *testing.B) {
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(b).Addr})
	defer func() { _ = client.Close() }()
	const batch = 2000
	var enqueue, process, cpu [2]time.Duration // plain, ours
	used := func() time.Duration { return redistest.CPU(b, client.Info(b.Context(), "cpu").Val()) }
	for b.Loop() {
		for i, round := range []func(*testing.B, redis.UniversalClient, int) (time.Duration, time.Duration){plain, ours, ours, plain} {
			which := []int{0, 1, 1, 0}[i]
			before := used()
			e, p := round(b, client, batch)
			cpu[which] += used() - before
			enqueue[which] += e
			process[which] += p
		}
	}
	n := float64(2 * batch * b.N)
	for i, name := range []string{"asynq", "jobs"} {
		b.ReportMetric(n/enqueue[i].Seconds(), name+"-enqueued/s")
		b.ReportMetric(n/process[i].Seconds(), name+"-processed/s")
		b.ReportMetric(cpu[i].Seconds()*1e6/n, name+"-µs-Redis-CPU")
	}
	b.ReportMetric(enqueue[0].Seconds()/enqueue[1].Seconds(), "enqueue-ratio")
	b.ReportMetric(process[0].Seconds()/process[1].Seconds(), "process-ratio")
	b.ReportMetric((enqueue[0]+process[0]).Seconds()/(enqueue[1]+process[1]).Seconds(), "ratio")
}

// each calls f n times from several goroutines, and returns how long it took.
func each(b *testing.B, n int, f func(i int) error) time.Duration {
	b.Helper()
	var next atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for range benchWorkers {
		group.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if err := f(int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return time.Since(began)
}

// counted returns a function that counts n calls, and a channel that is closed after them.
func counted(n int) (func(), <-chan struct{}) {
	var count atomic.Int64
	done := make(chan struct{})
	return func() {
		if count.Add(1) == int64(n) {
			close(done)
		}
	}, done
}

func plain(b *testing.B, client redis.UniversalClient, n int) (enqueue, process time.Duration) {
	b.Helper()
	producer := asynq.NewClientFromRedisClient(client)
	payload := make([]byte, 100)
	enqueue = each(b, n, func(i int) error {
		_, err := producer.Enqueue(asynq.NewTask("job", payload), asynq.Queue("plain"), asynq.TaskID("plain-"+strconv.Itoa(i)), asynq.MaxRetry(math.MaxInt32), asynq.Timeout(time.Hour))
		return err
	})
	one, done := counted(n)
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency: benchWorkers, Queues: map[string]int{"plain": 1}, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: 25 * time.Millisecond, DelayedTaskCheckInterval: 200 * time.Millisecond,
	})
	began := time.Now()
	if err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { one(); return nil })); err != nil {
		b.Fatal(err)
	}
	<-done
	process = time.Since(began)
	server.Shutdown()
	return enqueue, process
}

func ours(b *testing.B, client redis.UniversalClient, n int) (enqueue, process time.Duration) {
	b.Helper()
	engine, err := asynqjobs.New(client, asynqjobs.Config{})
	if err != nil {
		b.Fatal(err)
	}
	one, done := counted(n)
	r, err := jobs.New(jobs.Config{Engine: engine, Queues: map[string]jobs.Queue{"ours": {
		Concurrency: benchWorkers, Handler: func(context.Context, jobs.Job) error { one(); return nil },
	}}})
	if err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, 100)
	enqueue = each(b, n, func(i int) error {
		_, err := r.Enqueue(context.Background(), jobs.Job{Queue: "ours", ID: "ours-" + strconv.Itoa(i), Payload: payload})
		return err
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- r.Run(ctx) }()
	<-done
	process = time.Since(began)
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	return enqueue, process
}
