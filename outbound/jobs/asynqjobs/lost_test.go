package asynqjobs_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

// processVar is the variable of the environment that makes the test binary a worker, with the address of Redis.
const processVar = "GRESIL_TEST_JOBS"

// process returns the command that runs the test binary as a worker.
func process(ctx context.Context, value string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, core.Must(os.Executable()))                      //nolint:gosec // ourselves
	cmd.Env = append(os.Environ(), processVar+"="+value, "GORACE=atexit_sleep_ms=0") // otherwise it ends a second late
	return cmd
}

// poison is the ID of a job that ends the process of its handler.
const poison = "poison"

// processMain takes jobs, five at a time, and prints the ID of each. With "done" after the address, it ends them, otherwise
// never. With "ten", it ends them, and has ten at a time.
func processMain(text string) error {
	addr, done, _ := strings.Cut(text, " ")
	client := redis.NewClient(&redis.Options{Addr: addr})
	engine, err := asynqjobs.New(client, asynqjobs.Config{Poll: 20 * time.Millisecond})
	if err != nil {
		return err
	}
	if done == "batch" {
		return batchMain(client, engine)
	}
	concurrency := 5
	if done == "ten" {
		concurrency = 10
	}
	r, err := jobs.New(jobs.Config{Engine: engine, Queues: map[string]jobs.Queue{"q": {Concurrency: concurrency, Handler: func(_ context.Context, job jobs.Job) error {
		fmt.Println(job.ID)
		switch {
		case job.ID == poison:
			time.Sleep(20 * time.Millisecond) // others have begun meanwhile
			os.Exit(137)
		case done == "":
			select {}
		}
		time.Sleep(50 * time.Millisecond) // so that they are active when the process ends
		return nil
	}}}})
	if err != nil {
		return err
	}
	return r.Run(context.Background())
}

// expire makes the leases of a queue those of a process that died two minutes ago.
func (s setup) expire(t *testing.T) {
	t.Helper()
	s.expireOf(t, "q")
}

func (s setup) expireOf(t *testing.T, queue string) {
	t.Helper()
	ids, err := s.client.ZRange(t.Context(), "asynq:{"+queue+"}:lease", 0, -1).Result()
	require.NoError(t, err)
	for _, id := range ids {
		require.NoError(t, s.client.ZAdd(t.Context(), "asynq:{"+queue+"}:lease", redis.Z{Score: float64(time.Now().Add(-2 * time.Minute).Unix()), Member: id}).Err())
	}
}

// restart runs one worker after the other, each with five jobs at a time, until the queue has no more jobs to
// run. The jobs of one that has ended are due at once. It kills the first ones when they have begun a job
// each; the others end by themselves or at the end.
func restart(t *testing.T, s setup, kills int) (deaths int) {
	t.Helper()
	for range 12 + kills {
		cmd := process(t.Context(), s.server.Addr+" done")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		ended, over := make(chan error, 1), false
		go func() {
			lines := bufio.NewScanner(out)
			for first := true; lines.Scan(); first = false {
				if first && deaths < kills {
					_ = cmd.Process.Kill()
				}
			}
			ended <- cmd.Wait()
		}()
		for alive := true; alive; {
			select {
			case err := <-ended:
				require.Error(t, err)
				alive = false
			case <-time.After(20 * time.Millisecond):
				soon := redis.ZRangeArgs{Key: "asynq:{q}:retry", ByScore: true, Start: "-inf", Stop: time.Now().Unix() + 10}
				for _, id := range s.client.ZRangeArgs(t.Context(), soon).Val() { // they wait for a second
					require.NoError(t, s.client.ZAddXX(t.Context(), "asynq:{q}:retry", redis.Z{Member: id}).Err())
				}
				c := s.counts(t)
				if over = c.Pending+c.Scheduled+c.Active == 0; over {
					_ = cmd.Process.Kill()
				}
			}
		}
		if over {
			return deaths
		}
		deaths++
		s.expire(t)
	}
	t.Fatalf("after %d ends: %+v", deaths, s.counts(t))
	return 0
}

// A job that ends its process fails after MaxDeliveries of them. Jobs beside it are done, and none fails after
// kills of other reasons.
func TestPoison(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		poison        bool
		kills, deaths int
	}{
		"poison":               {true, 0, 5},
		"kills":                {false, 8, 8},
		"poison and two kills": {true, 2, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, asynqjobs.Config{Poll: 5 * time.Millisecond})
			producer, err := jobs.New(jobs.Config{Engine: s.engine})
			require.NoError(t, err)
			var failures []string
			for i := range 40 {
				job := jobs.Job{ID: fmt.Sprint(i), MaxAttempts: 1, Retain: time.Hour}
				if c.poison && i == 3 {
					job.ID = poison
					failures = append(failures, job.ID)
				}
				enqueue(t, producer, job)
			}
			require.LessOrEqual(t, restart(t, s, c.kills), c.deaths)
			counts := s.counts(t)
			require.Equal(t, []int{len(failures), 40 - len(failures)}, []int{counts.Failed, counts.Done})
			for info, err := range producer.Jobs(t.Context(), "q", jobs.Failed) {
				require.NoError(t, err)
				require.Contains(t, failures, info.ID)
				require.Contains(t, info.LastError, "5 processes ended, or lost the engine, during the attempt")
				require.NoError(t, producer.RunNow(t.Context(), "q", info.ID))
			}
			s.run(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error { return nil }}) // RunNow forgets the losses
			eventually(t, func() bool { return s.counts(t).Done == 40 }, "it runs again by hand")
		})
	}
}

// kill starts a worker, waits until it has five jobs, and kills it. It returns their IDs.
func kill(t *testing.T, s setup) (ids []string) {
	t.Helper()
	cmd := process(t.Context(), s.server.Addr)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for lines := bufio.NewScanner(out); len(ids) < 5 && lines.Scan(); {
		ids = append(ids, lines.Text())
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	require.Len(t, ids, 5)
	return ids
}

// survive enqueues ten jobs, kills the worker that has five of them, and waits until another worker has
// done all. The lease of the dead worker ends by itself, or is made to.
func survive(t *testing.T, expire bool) (redelivered time.Duration) {
	t.Helper()
	s := start(t, asynqjobs.Config{})
	producer, err := jobs.New(jobs.Config{Engine: s.engine})
	require.NoError(t, err)
	for range 10 {
		enqueue(t, producer, jobs.Job{MaxAttempts: 1})
	}
	lost := kill(t, s)
	killed := time.Now()
	c := s.counts(t)
	require.Equal(t, []int{5, 5}, []int{c.Active, c.Pending})
	if expire {
		s.expire(t)
	}
	done := make(chan jobs.Job, 20)
	s.run(t, jobs.Queue{Handler: func(_ context.Context, job jobs.Job) error {
		done <- job
		return nil
	}})
	ids := map[string]bool{}
	for range 10 {
		select {
		case job := <-done:
			require.Equal(t, 1, job.Attempt, "a lost worker uses no attempt")
			ids[job.ID] = true
		case <-time.After(3 * time.Minute):
			t.Fatalf("%d of 10 jobs are done", len(ids))
		}
	}
	for _, id := range lost {
		require.True(t, ids[id])
	}
	return time.Since(killed)
}

func TestKilledWorker(t *testing.T) {
	t.Parallel()
	survive(t, true)
}

// All jobs of processes that have ended are counted as lost before a server starts, since it would let them run again without that.
func TestManyLostJobs(t *testing.T) {
	t.Parallel()
	const n = 1200
	s := start(t, asynqjobs.Config{})
	for i := range n + 1 { // the last one is for the server
		require.NoError(t, s.Enqueue(t.Context(), groups.Job{ID: fmt.Sprint(i), Queue: "q", MaxAttempts: 1}, 2*n))
	}
	require.NoError(t, s.client.Eval(t.Context(), `
		for i = 1, ARGV[1] do
			local id = redis.call('RPOPLPUSH', 'asynq:{q}:pending', 'asynq:{q}:active')
			redis.call('HSET', 'asynq:{q}:t:' .. id, 'state', 'active')
			redis.call('ZADD', 'asynq:{q}:lease', 1, id)
		end
		return 1`, nil, n).Err())
	var done, lost atomic.Int64
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	s.Run(ctx, "q", groups.Worker{Concurrency: 20, Handle: func(_ context.Context, e groups.Entry) groups.Verdict {
		lost.Add(int64(e.Losses))
		if done.Add(1) == n+1 {
			stop()
		}
		return groups.Verdict{}
	}})
	require.Equal(t, []int64{n + 1, n}, []int64{done.Load(), lost.Load()})
}

// A job whose process has ended runs alone, and a delivery without an attempt, as in a hold, does not forget that.
func TestSuspectRunsAlone(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	g := core.Must(gate.New(gate.Config{Limits: []gate.Limit{{}}, MaxAttempts: 1, Backoff: backoff.Constant{Delay: time.Minute}}))
	require.ErrorIs(t, g.Do(t.Context(), gate.Call{}, func(context.Context) error { return refusal{} }), gate.ErrLimited)
	producer, err := jobs.New(jobs.Config{Engine: s.engine})
	require.NoError(t, err)
	id, ctx := enqueue(t, producer, jobs.Job{}), t.Context()
	require.NoError(t, s.client.LMove(ctx, "asynq:{q}:pending", "asynq:{q}:active", "RIGHT", "LEFT").Err())
	require.NoError(t, s.client.HSet(ctx, "asynq:{q}:t:"+id, "state", "active").Err())
	require.NoError(t, s.client.ZAdd(ctx, "asynq:{q}:lease", redis.Z{Member: id}).Err())
	enqueue(t, producer, jobs.Job{Meta: map[string]string{groups.Suspect: "2"}}) // a half of a batch
	for range 10 {
		enqueue(t, producer, jobs.Job{})
	}
	var running atomic.Int64
	r, _ := s.run(t, jobs.Queue{Gate: g, Handler: func(_ context.Context, job jobs.Job) error {
		n := running.Add(1)
		time.Sleep(20 * time.Millisecond)
		alone := n == 1 && running.Load() == 1
		running.Add(-1)
		if job.ID == id || len(job.Meta) > 0 {
			assert.True(t, alone, job)
		}
		return nil
	}})
	eventually(t, func() bool {
		return s.client.HExists(ctx, "asynq:{q}:t:"+id, "gresil-lost").Val() && r.Stats().Limited > 2
	}, "it was lost")
	time.Sleep(3 * time.Second)
	require.True(t, s.client.HExists(ctx, "asynq:{q}:t:"+id, "gresil-lost").Val())
	require.NoError(t, g.Resume(ctx, "", ""))
	eventually(t, func() bool { return r.Stats().Succeeded == 12 }, "all run")
}

// After a while, others run beside a job that should run alone, but no other one of its kind.
func TestSuspectsRunApart(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{Poll: 20 * time.Millisecond})
	asynqjobs.SetMostAlone(s.Queue, 100*time.Millisecond)
	producer, err := jobs.New(jobs.Config{Engine: s.engine})
	require.NoError(t, err)
	for range 3 {
		enqueue(t, producer, jobs.Job{Meta: map[string]string{groups.Suspect: "1"}})
	}
	var suspects, others, most atomic.Int64
	end := make(chan struct{})
	r, _ := s.run(t, jobs.Queue{Concurrency: 9, Handler: func(_ context.Context, job jobs.Job) error {
		if len(job.Meta) == 0 {
			others.Add(1)
			return nil
		}
		if n := suspects.Add(1); n > most.Load() {
			most.Store(n)
		}
		<-end
		suspects.Add(-1)
		return nil
	}})
	eventually(t, func() bool { return suspects.Load() == 1 }, "one of them runs")
	for range 4 {
		enqueue(t, producer, jobs.Job{})
	}
	eventually(t, func() bool { return others.Load() == 4 && r.Stats().Active == 1 }, "the others run")
	close(end)
	eventually(t, func() bool { return r.Stats().Succeeded == 7 }, "all run")
	require.EqualValues(t, 1, most.Load())
}

// A job that its process has survived has no losses any more, also if its next attempt is not made.
func TestLossesOfSurvivor(t *testing.T) {
	t.Parallel()
	s, ctx := start(t, asynqjobs.Config{Poll: 5 * time.Millisecond}), t.Context()
	require.NoError(t, s.Enqueue(ctx, groups.Job{ID: "a", Queue: "q", MaxAttempts: 9}, 10))
	require.NoError(t, s.client.LMove(ctx, "asynq:{q}:pending", "asynq:{q}:active", "RIGHT", "LEFT").Err())
	require.NoError(t, s.client.HSet(ctx, "asynq:{q}:t:a", "state", "active").Err())
	require.NoError(t, s.client.ZAdd(ctx, "asynq:{q}:lease", redis.Z{Member: "a"}).Err())
	running, stop := context.WithCancel(ctx)
	var ended sync.WaitGroup
	defer ended.Wait()
	defer stop()
	var losses []int
	ended.Go(func() {
		s.Run(running, "q", groups.Worker{Concurrency: 1, Handle: func(_ context.Context, e groups.Entry) groups.Verdict {
			if losses = append(losses, e.Losses); len(losses) == 1 {
				return groups.Verdict{End: groups.Limited, At: time.Now().Add(20 * time.Millisecond), Err: errors.New("wait"), Made: true}
			}
			return groups.Verdict{End: groups.Limited, At: time.Now().Add(time.Hour), Err: errors.New("held")}
		}})
	})
	eventually(t, func() bool {
		return s.client.ZScore(ctx, "asynq:{q}:retry", "a").Val() > float64(time.Now().Unix()+600)
	}, "it waits for an hour")
	require.False(t, s.client.HExists(ctx, "asynq:{q}:t:a", "gresil-lost").Val())
	stop()
	ended.Wait()
	require.Equal(t, []int{1, 1}, losses)
}

// After Close it does not run beside the jobs that still run: it goes back to its queue.
func TestSuspectAfterClose(t *testing.T) {
	t.Parallel()
	s, ctx := start(t, asynqjobs.Config{}), t.Context()
	end := make(chan struct{})
	release := sync.OnceFunc(func() { close(end) })
	begun := make(chan string, 2)
	r, stop := s.run(t, jobs.Queue{Concurrency: 2, Handler: func(_ context.Context, job jobs.Job) error {
		begun <- job.ID
		<-end
		return nil
	}})
	defer func() { release(); stop() }()
	first := enqueue(t, r, jobs.Job{})
	require.Equal(t, first, <-begun)
	suspect := enqueue(t, r, jobs.Job{Meta: map[string]string{groups.Suspect: "2"}})
	waits := func() bool { return s.client.HExists(ctx, "asynq:{q}:t:"+suspect, "gresil-waits").Val() }
	eventually(t, waits, "it waits to run alone")
	closed := make(chan error, 1)
	go func() { closed <- r.Close(context.WithoutCancel(ctx)) }()
	eventually(t, func() bool { return !waits() && s.counts(t).Active == 1 }, "it is sent back")
	release()
	require.NoError(t, <-closed)
	require.Empty(t, begun)
}

// failing fails the commands of a name while it is set.
type failing struct{ name atomic.Value }

func (f *failing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *failing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == f.name.Load() {
			return errors.New("out of reach")
		}
		return next(ctx, cmd)
	}
}

func (f *failing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A job whose mark Redis does not clear when its turn has come gives its turn back, and runs later.
func TestSuspectDuringOutage(t *testing.T) {
	t.Parallel()
	s, ctx := start(t, asynqjobs.Config{Poll: 5 * time.Millisecond}), t.Context()
	f := &failing{}
	s.client.AddHook(f)
	begun, end := make(chan struct{}, 2), make(chan struct{})
	release := sync.OnceFunc(func() { close(end) })
	defer release()
	r, _ := s.run(t, jobs.Queue{Concurrency: 3, Handler: func(_ context.Context, job jobs.Job) error {
		if job.ID == "first" {
			begun <- struct{}{}
			<-end
		}
		return nil
	}})
	enqueue(t, r, jobs.Job{ID: "first"})
	<-begun // in the counts it is active before it has its share
	require.NoError(t, s.Enqueue(ctx, groups.Job{ID: "suspect", Queue: "q", MaxAttempts: 25, Meta: map[string]string{groups.Suspect: "2"}}, 10))
	eventually(t, func() bool { return s.client.HExists(ctx, "asynq:{q}:t:suspect", "gresil-waits").Val() }, "it waits to run alone")
	f.name.Store("hdel")
	release()
	eventually(t, func() bool { return s.counts(t).Scheduled == 1 }, "it is sent back")
	f.name.Store("")
	enqueue(t, r, jobs.Job{ID: "last"})
	eventually(t, func() bool { return r.Stats().Succeeded == 3 }, "all run")
}

// A job that is active without a lease, as after an error of Redis, runs again. Another entry has no job.
func TestStuckJob(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	r, err := jobs.New(jobs.Config{Engine: s.engine})
	require.NoError(t, err)
	id, ctx := enqueue(t, r, jobs.Job{Payload: []byte("p")}), t.Context()
	require.NoError(t, s.client.LMove(ctx, "asynq:{q}:pending", "asynq:{q}:active", "RIGHT", "LEFT").Err())
	require.NoError(t, s.client.HSet(ctx, "asynq:{q}:t:"+id, "state", "active").Err())
	require.NoError(t, s.client.LPush(ctx, "asynq:{q}:active", "gone").Err())
	again, _ := s.run(t, jobs.Queue{MaxDeliveries: 1, Handler: func(_ context.Context, job jobs.Job) error { // no process has ended with it
		require.Equal(t, []any{id, "p", 1}, []any{job.ID, string(job.Payload), job.Attempt})
		return nil
	}})
	eventually(t, func() bool {
		return s.client.ZCard(t.Context(), "asynq:{q}:lease").Val() == 1 && s.counts(t).Active == 1
	}, "it has a lease")
	s.expire(t)
	eventually(t, func() bool { return again.Stats().Succeeded == 1 }, "it has run")
}

// What the end of a process, or of Redis, has left of a job has no effect on a later one.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	ctx := t.Context()
	begun, end := make(chan string, 2), make(chan struct{})
	release := sync.OnceFunc(func() { close(end) })
	defer release()
	r, stop := s.run(t, jobs.Queue{Concurrency: 2, Handler: func(_ context.Context, job jobs.Job) error {
		begun <- job.ID
		<-end
		return nil
	}})
	first := enqueue(t, r, jobs.Job{ID: "first"})
	require.Equal(t, first, <-begun)
	require.NoError(t, s.Enqueue(ctx, groups.Job{ID: "suspect", Queue: "q", MaxAttempts: 25, Meta: map[string]string{groups.Suspect: "2"}}, 10))
	waits := func() bool { return s.client.HExists(ctx, "asynq:{q}:t:suspect", "gresil-waits").Val() }
	eventually(t, waits, "it waits for the first one")
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	eventually(t, func() bool { return !waits() }, "it has not begun, and does not wait")
	release()
	<-stopped

	require.NoError(t, s.client.HSet(ctx, "asynq:{q}:t:gone", "gresil-waits", 1).Err())
	enqueue(t, r, jobs.Job{ID: "gone"})

	require.NoError(t, s.client.SRem(ctx, "asynq:queues", "q").Err())
	listed := map[string]bool{}
	for _, state := range []jobs.State{jobs.Scheduled, jobs.Pending} { // a job can become due meanwhile
		for job, err := range r.Jobs(ctx, "q", state) {
			require.NoError(t, err)
			listed[job.ID] = true
		}
	}
	require.Equal(t, map[string]bool{"suspect": true, "gone": true}, listed, "though Redis has forgotten the queue")
}
