package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

// FloorAsynq is a task of asynq for each job and each record, and one server for all queues.
const FloorAsynq = "asynq"

const idleQueues = 20

// jobRows are what a job and a record cost a server, from Enqueue or Add until it is done, and what queues cost that have none.
func jobRows(r *Redis, s RedisSizes) []Row {
	n := max(1, s.Keys/5)
	row := func(name, subject string, units []string, sample func(worker) ([]float64, error), start worker) Row {
		row := Row{Name: name, Subjects: []Subject{
			{Name: subject, Sample: func() ([]float64, error) { return sample(start) }},
			{Name: FloorAsynq, Role: Floor, Sample: func() ([]float64, error) { return sample(startAsynq) }},
		}}
		for _, unit := range units {
			row.Units = append(row.Units, Unit{Name: unit})
		}
		return row
	}
	done := func(w worker) ([]float64, error) { return r.done(w, n) }
	cost := []string{"µs Redis CPU", "commands"}
	return []Row{
		row("a job, enqueued and run", "jobs", cost, done, startJobs),
		row("a record, 200 a call", "batch", cost, done, startBatch(200)),
		row("a record, 10 a call", "batch", cost, done, startBatch(10)),
		row("a record, 1 a call", "batch", cost, done, startBatch(1)),
		row(fmt.Sprintf("%d queues without jobs", idleQueues), "jobs", []string{"commands/s"},
			func(w worker) ([]float64, error) { return r.idle(w, 10*s.Load) }, startJobs),
	}
}

// A worker starts what runs the jobs of the queues, and calls done for each. The jobs of put can be there before run, which returns
// when it works, and stop ends it.
type worker func(client redis.UniversalClient, queues []string, done func()) (put func(context.Context) error, run func() (stop func() error), err error)

func startJobs(client redis.UniversalClient, queues []string, done func()) (func(context.Context) error, func() func() error, error) {
	engine, err := asynqjobs.New(client, asynqjobs.Config{})
	if err != nil {
		return nil, nil, err
	}
	all := map[string]jobs.Queue{}
	for _, name := range queues {
		all[name] = jobs.Queue{Concurrency: callers, Handler: func(context.Context, jobs.Job) error { done(); return nil }}
	}
	r, err := jobs.New(jobs.Config{Engine: engine, Queues: all})
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) error {
		_, err := r.Enqueue(ctx, jobs.Job{Queue: queues[0], Payload: []byte("payload")})
		return err
	}, background(r.Run), nil
}

func startBatch(records int) worker {
	return func(client redis.UniversalClient, queues []string, done func()) (func(context.Context) error, func() func() error, error) {
		engine, err := asynqjobs.New(client, asynqjobs.Config{})
		if err != nil {
			return nil, nil, err
		}
		b, err := batch.New(batch.Config[string, int]{
			Name: queues[0], Engine: engine, MaxRecords: records, FlushAfter: time.Millisecond, Concurrency: callers,
			Send: func(_ context.Context, _ string, all []string) ([]batch.Result[int], error) {
				for range all {
					done()
				}
				return make([]batch.Result[int], len(all)), nil
			},
		})
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context) error {
			_, err := b.Add(ctx, "payload")
			return err
		}, background(b.Run), nil
	}
}

func startAsynq(client redis.UniversalClient, queues []string, done func()) (func(context.Context) error, func() func() error, error) {
	weights := map[string]int{}
	for _, name := range queues {
		weights[name] = 1
	}
	server := asynq.NewServerFromRedisClient(client, asynq.Config{Concurrency: callers, Queues: weights, LogLevel: asynq.FatalLevel})
	producer := asynq.NewClientFromRedisClient(client)
	return func(ctx context.Context) error {
			_, err := producer.EnqueueContext(ctx, asynq.NewTask("task", []byte("payload")), asynq.Queue(queues[0]))
			return err
		}, func() func() error {
			err := server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { done(); return nil }))
			return func() error { server.Shutdown(); return err }
		}, nil
}

func background(run func(context.Context) error) func() func() error {
	return func() func() error {
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx) }()
		return func() error { stop(); return <-ended }
	}
}

// done is what each of n jobs has cost when all are done.
func (r *Redis) done(w worker, n int) ([]float64, error) {
	on, err := r.single()
	if err != nil {
		return nil, err
	}
	var made atomic.Int64
	all := make(chan struct{})
	put, run, err := w(on.client, []string{unused("queue")}, func() {
		if made.Add(1) == int64(n) {
			close(all)
		}
	})
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	cpu, commands, err := on.used(ctx)
	if err != nil {
		return nil, err
	}
	if err := each(n, func(int) error { return put(ctx) }); err != nil {
		return nil, err
	}
	stop := run()
	select {
	case <-all:
	case <-time.After(time.Minute):
		return nil, fmt.Errorf("%d of %d are done after a minute: %w", made.Load(), n, stop())
	}
	if err := stop(); err != nil {
		return nil, err
	}
	usedCPU, usedCommands, err := on.used(ctx)
	return []float64{float64((usedCPU - cpu).Nanoseconds()) / 1000 / float64(n), (usedCommands - commands) / float64(n)}, err
}

// idle is the number of commands a second for queues without jobs.
func (r *Redis) idle(w worker, long time.Duration) ([]float64, error) {
	on, err := r.single()
	if err != nil {
		return nil, err
	}
	var queues []string
	for range idleQueues {
		queues = append(queues, unused("idle"))
	}
	_, run, err := w(on.client, queues, func() {})
	if err != nil {
		return nil, err
	}
	stop := run()
	time.Sleep(long / 10) // it has begun
	_, before, err := on.used(context.Background())
	if err != nil {
		return nil, err
	}
	began := time.Now()
	time.Sleep(long)
	_, after, err := on.used(context.Background())
	if err != nil {
		return nil, err
	}
	rate := (after - before) / time.Since(began).Seconds()
	return []float64{rate}, stop()
}

// used is the processor time and the number of commands of a server.
func (n *nodes) used(ctx context.Context) (cpu time.Duration, commands float64, err error) {
	if cpu, err = n.cpu(ctx); err != nil {
		return 0, 0, err
	}
	commands, err = infoField(ctx, n.all[0], "stats", "total_commands_processed")
	return cpu, commands, err
}
