package asynqjobs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
	"github.com/gresil/gresil/stores/redisstore"
)

// runAtTimes runs jobs that return RunAt(now+wait) a number of times each, and returns the extremes of
// their lateness. Retried is the count of asynq.
func runAtTimes(t *testing.T, s setup, wait time.Duration, n, times int) (earliest, latest time.Duration) {
	t.Helper()
	var mu sync.Mutex
	due, runs := map[string]time.Time{}, map[string]int{}
	earliest = time.Hour
	r, stop := s.run(t, jobs.Queue{Concurrency: n, Handler: func(_ context.Context, job jobs.Job) error {
		mu.Lock()
		defer mu.Unlock()
		if at, ok := due[job.ID]; ok {
			lateness := time.Since(at)
			earliest, latest = min(earliest, lateness), max(latest, lateness)
		}
		if task, err := s.inspector.GetTaskInfo("q", job.ID); err != nil || task.Retried != 0 {
			t.Errorf("task = %+v, %v: it was retried", task, err)
		}
		if runs[job.ID]++; runs[job.ID] > times {
			return nil
		}
		due[job.ID] = time.Now().Add(wait)
		return fmt.Errorf("later: %w", jobs.RunAt(due[job.ID]))
	}})
	for range n {
		enqueue(t, r, jobs.Job{MaxAttempts: 1})
	}
	require.Eventually(t, func() bool { return r.Stats().Succeeded == uint64(n) }, time.Duration(times+10)*6*time.Second, 10*time.Millisecond)
	stop()
	return earliest, latest
}

// asynq itself rounds the time down, and is up to a second early.
func TestNeverEarlyNorBlunt(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{1500 * time.Millisecond, 2300 * time.Millisecond} { // in the process, in Redis
		t.Run(wait.String(), func(t *testing.T) {
			t.Parallel()
			s := start(t, asynqjobs.Config{})
			quiettest.Repeat(t, func() error {
				earliest, latest := runAtTimes(t, s, wait, 5, 2)
				require.GreaterOrEqual(t, earliest, time.Duration(0))
				if latest >= 2500*time.Millisecond {
					return fmt.Errorf("late by %v", latest)
				}
				return nil
			})
		})
	}
}

// A short wait is exact: it does not go through Redis, but only once in a row.
func TestShortWaitInProcess(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	var stored []bool // whether the last result is in Redis
	r, stop := s.run(t, jobs.Queue{Handler: func(_ context.Context, job jobs.Job) error {
		task, err := s.inspector.GetTaskInfo("q", job.ID)
		if err != nil {
			return err
		}
		if stored = append(stored, task.LastErr != ""); len(stored) == 4 {
			return nil
		}
		return jobs.RunAt(time.Now().Add(10 * time.Millisecond))
	}})
	enqueue(t, r, jobs.Job{})
	eventually(t, func() bool { return r.Stats().Succeeded == 1 }, "it has succeeded")
	stop()
	require.Equal(t, []bool{false, false, true, true}, stored)
}

// Tasks of other clients run, by the rules of asynq: one whose deadline is over has failed.
func TestTasksOfAnotherClient(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{Poll: 5 * time.Millisecond})
	client := asynq.NewClientFromRedisClient(s.client)
	for retries, deadline := range map[int]time.Duration{0: -time.Minute, 1: -time.Minute, 2: time.Minute} {
		_, err := client.Enqueue(asynq.NewTask("mail:send", []byte("p")), asynq.Queue("q"), asynq.MaxRetry(retries), asynq.Deadline(time.Now().Add(deadline)))
		require.NoError(t, err)
	}
	var got jobs.Job
	r, _ := s.run(t, jobs.Queue{Handler: func(_ context.Context, job jobs.Job) error {
		got = job
		return nil
	}})
	eventually(t, func() bool {
		c := s.counts(t)
		return c.Failed == 1 && c.Scheduled == 1 && r.Stats().Succeeded == 1
	}, "the first has failed, the second waits, the third has run")
	require.Equal(t, []any{3, "p"}, []any{got.MaxAttempts, string(got.Payload)})
}

// Delete frees the lock of a task that another client has enqueued as unique.
func TestDeleteOfUniqueTask(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	client := asynq.NewClientFromRedisClient(s.client)
	for range 2 {
		task, err := client.Enqueue(asynq.NewTask("mail:send", []byte("p")), asynq.Queue("q"), asynq.Unique(time.Hour))
		require.NoError(t, err)
		_, err = client.Enqueue(asynq.NewTask("mail:send", []byte("p")), asynq.Queue("q"), asynq.Unique(time.Hour))
		require.ErrorIs(t, err, asynq.ErrDuplicateTask)
		require.NoError(t, s.Control(t.Context(), "q", groups.Delete, task.ID))
	}
}

// The clock of another process is ahead: it has made a job pending too early. The job waits for its time.
func TestClockOfAnotherProcess(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	var early atomic.Int64
	due := time.Now().Add(1500 * time.Millisecond)
	r, err := jobs.New(jobs.Config{Engine: s.engine})
	require.NoError(t, err)
	id := enqueue(t, r, jobs.Job{NotBefore: due})
	require.NoError(t, s.inspector.RunTask("q", id)) // as that process would
	again, _ := s.run(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error {
		early.Store(int64(time.Until(due)))
		return nil
	}})
	eventually(t, func() bool { return again.Stats().Succeeded == 1 }, "it has run")
	require.LessOrEqual(t, early.Load(), int64(0))
}

// The clock of Redis is set back by an hour: what is left of a hold is then an hour more.
func TestHoldAfterClockOfRedis(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	require.NoError(t, s.Hold(t.Context(), "q", time.Now().Add(groups.LongestHold)))
	require.NoError(t, s.client.PExpire(t.Context(), "asynq:{q}:paused", time.Hour).Err())
	r, _ := s.run(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error { return nil }})
	enqueue(t, r, jobs.Job{})
	eventually(t, func() bool { return r.Stats().Succeeded == 1 }, "it has run")
}

// Everything that is accepted is done, although Redis is killed and started again meanwhile.
func TestRestartOfRedis(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{}, "--appendonly", "yes", "--appendfsync", "always")
	var mu sync.Mutex
	runs := map[string]int{}
	handler := func(_ context.Context, job jobs.Job) error {
		time.Sleep(time.Millisecond) // so that jobs are active when Redis is killed
		mu.Lock()
		defer mu.Unlock()
		runs[job.ID]++
		return nil
	}
	r, stop := s.run(t, jobs.Queue{Concurrency: 4, Handler: handler})
	ids := map[string]bool{}
	for i := range 200 {
		ids[enqueue(t, r, jobs.Job{ID: fmt.Sprint(i), NotBefore: time.Now().Add(time.Duration(i%3) * time.Second)})] = true
	}
	s.server.Kill()
	_, err := r.Enqueue(t.Context(), jobs.Job{Queue: "q"})
	require.Error(t, err)
	require.False(t, errors.Is(err, core.ErrConfig) || errors.Is(err, jobs.ErrExists) || errors.Is(err, jobs.ErrFull))
	_, err = r.Queue(t.Context(), "q")
	require.Error(t, err)
	require.Error(t, s.Hold(t.Context(), "q", time.Now().Add(time.Minute)))
	require.NoError(t, s.server.Restart())
	left := func(active int) bool {
		all, err := s.Inspect(t.Context(), "q")
		return err == nil && all[0].Pending+all[0].Scheduled+active*all[0].Active == 0
	}
	eventually(t, func() bool { return left(0) }, "no job waits")
	stop()
	s.expire(t) // of jobs that were taken by a command whose reply was lost
	s.run(t, jobs.Queue{Handler: handler})
	eventually(t, func() bool { return left(1) }, "no job is left")
	mu.Lock()
	defer mu.Unlock()
	for id := range ids {
		require.Positive(t, runs[id], "job %s is lost", id)
	}
}

// A job that fails waits for its Backoff in Redis, and the server of an idle queue ends meanwhile.
func TestServerWhileThereIsWork(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	r, _ := s.run(t, jobs.Queue{Backoff: backoff.Constant{Delay: 5 * time.Second}, Handler: func(_ context.Context, job jobs.Job) error {
		if job.ID == "fails" && job.Attempt == 1 {
			return errors.New("no")
		}
		return nil
	}})
	servers := func() int {
		all, err := s.inspector.Servers()
		require.NoError(t, err)
		return len(all)
	}
	time.Sleep(300 * time.Millisecond)
	require.Zero(t, servers())
	enqueue(t, r, jobs.Job{ID: "fails"})
	eventually(t, func() bool { return r.Stats().Retried == 1 && servers() == 0 }, "the server has ended")
	require.Zero(t, r.Stats().Succeeded)
	eventually(t, func() bool { return r.Stats().Succeeded == 1 }, "it runs again")
	eventually(t, func() bool { return servers() == 0 }, "the server has ended")
	due := time.Now().Add(3 * time.Second)
	enqueue(t, r, jobs.Job{NotBefore: due, Retain: time.Second})
	eventually(t, func() bool { return r.Stats().Succeeded == 2 }, "it runs at its time")
	t.Logf("late by %v", time.Since(due))
	eventually(t, func() bool { return s.client.ZCard(t.Context(), "asynq:{q}:completed").Val() == 0 }, "it is deleted when Retain is over")
}

// A held is a client and a log that let a server take a job as it ends: they keep its last question for jobs until it stops.
type held struct {
	slog.Handler

	holds, stopping atomic.Bool
	stop            chan struct{} // closed when the server stops
	last            func()        // is called then
}

func (h *held) Enabled(context.Context, slog.Level) bool { return true }

func (h *held) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if strings.Contains(a.Value.String(), "Stopping processor") && !h.stopping.Swap(true) {
			h.last()
			close(h.stop)
		}
		return true
	})
	return nil
}

func (h *held) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *held) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *held) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); h.holds.Load() && len(args) > 4 && args[3] == "asynq:{q}:pending" && args[4] == "asynq:{q}:paused" {
			<-h.stop
		}
		return next(ctx, cmd)
	}
}

// A job that the server of an idle queue takes as it ends does not keep others from running, and no more run than Concurrency says.
func TestJobOfEndingServer(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	h := &held{Handler: slog.DiscardHandler, stop: make(chan struct{})}
	client := redis.NewClient(&redis.Options{Addr: s.server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(h)
	through := s
	through.engine = core.Must(asynqjobs.New(client, asynqjobs.Config{Logger: slog.New(h)}))
	end := make(chan struct{})
	release := sync.OnceFunc(func() { close(end) })
	var running, top, done atomic.Int64
	r, stop := through.run(t, jobs.Queue{Concurrency: 2, Handler: func(_ context.Context, job jobs.Job) error {
		n := running.Add(1)
		defer running.Add(-1)
		top.Store(max(top.Load(), n))
		if job.ID == "long" {
			<-end
		}
		time.Sleep(10 * time.Millisecond)
		done.Add(1)
		return nil
	}})
	t.Cleanup(release)
	h.last = func() {
		assert.NoError(t, s.Enqueue(context.Background(), groups.Job{ID: "long", Queue: "q", MaxAttempts: 1}, 99))
	}
	enqueue(t, r, jobs.Job{})
	eventually(t, func() bool { return r.Stats().Succeeded == 1 }, "a server runs")
	h.holds.Store(true)
	eventually(t, func() bool { return running.Load() == 1 }, "the ending server has taken a job")
	for range 20 {
		enqueue(t, r, jobs.Job{})
	}
	eventually(t, func() bool { return done.Load() == 21 }, "the others run beside it")
	require.EqualValues(t, 2, top.Load())
	release()
	eventually(t, func() bool { return s.counts(t) == groups.Counts{} }, "it has ended")
	stop()
	servers, err := s.inspector.Servers()
	require.NoError(t, err)
	require.Empty(t, servers)
}

// A vendor counts the calls that arrive in its pauses, later than 150 ms after their beginning: a call can be on its way, and a round
// trip to Redis too.
type vendor struct {
	mu             sync.Mutex
	begin          time.Time // of the open time
	from, until    time.Time // of the pause
	pauses, inside int
	served         map[string]int
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	if now.After(v.until) && now.Sub(v.begin) > time.Second && v.pauses < 3 {
		v.pauses++
		v.from, v.until, v.begin = now, now.Add(1500*time.Millisecond), now.Add(1500*time.Millisecond)
	}
	if now.After(v.until) {
		v.served[r.Header.Get("Idempotency-Key")]++
		return
	}
	if now.Sub(v.from) > 150*time.Millisecond {
		v.inside++
	}
	w.Header().Set("Retry-After-Ms", strconv.FormatInt(v.until.Sub(now).Milliseconds()+1, 10))
	w.WriteHeader(http.StatusTooManyRequests)
}

// Four runners with connections, an engine and a gate of their own, as those of four processes, share a vendor. No call arrives in a
// told pause, and none uses an attempt.
func TestNoCallInsideToldPause(t *testing.T) {
	t.Parallel()
	const n = 280
	quiettest.Repeat(t, func() error {
		s := start(t, asynqjobs.Config{})
		v := &vendor{served: map[string]int{}, begin: time.Now()}
		server := httptest.NewServer(v)
		defer server.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var runners []*jobs.Runner
		for range 4 {
			client := redis.NewClient(&redis.Options{Addr: s.server.Addr})
			t.Cleanup(func() { _ = client.Close() })
			store := core.Must(redisstore.New(client, redisstore.Config{}))
			g := core.Must(gate.New(gate.Config{Name: "v", Limits: []gate.Limit{{N: 60, Per: time.Second}}, InFlight: 20, Store: store}))
			c := &http.Client{Transport: g.Transport(nil)}
			r := core.Must(jobs.New(jobs.Config{Engine: core.Must(asynqjobs.New(client, asynqjobs.Config{})), Queues: map[string]jobs.Queue{
				"q": {Gate: g, Handler: func(ctx context.Context, job jobs.Job) error {
					req := core.Must(http.NewRequestWithContext(ctx, http.MethodPost, server.URL, http.NoBody))
					req.Header.Set("Idempotency-Key", job.ID)
					resp, err := c.Do(req)
					if err != nil {
						return err
					}
					if err = resp.Body.Close(); resp.StatusCode != http.StatusOK {
						err = errors.New(resp.Status)
					}
					return err
				}},
			}}))
			runners = append(runners, r)
			running.Go(func() { _ = r.Run(ctx) })
		}
		stop := func() {
			cancel()
			running.Wait()
		}
		t.Cleanup(stop) // before the clients are closed: asynq panics then
		for range n {
			enqueue(t, runners[0], jobs.Job{MaxAttempts: 1, Retain: time.Hour})
		}
		require.Eventually(t, func() bool {
			c := s.counts(t)
			return c.Done+c.Failed == n
		}, 3*time.Minute, 50*time.Millisecond, "all are done")
		stop()
		v.mu.Lock()
		defer v.mu.Unlock()
		require.Equal(t, []int{n, 0, 3}, []int{len(v.served), s.counts(t).Failed, v.pauses})
		if v.inside > 0 {
			return fmt.Errorf("%d calls inside a pause", v.inside)
		}
		return nil
	})
}

// outage is a vendor that fails for 10 seconds, or answers nothing but 429: an hour, as all durations of the default Backoff are divided
// by 360. Then all jobs arrive once, and none has failed.
func outage(t *testing.T, n int) {
	t.Helper()
	for _, limited := range []bool{false, true} {
		t.Run(fmt.Sprintf("limited %t", limited), func(t *testing.T) {
			t.Parallel()
			s := start(t, asynqjobs.Config{})
			end := time.Now().Add(10 * time.Second)
			var mu sync.Mutex
			served := map[string]int{}
			g := core.Must(gate.New(gate.Config{Backoff: backoff.Exponential{Delay: time.Second / 24, Max: 2500 * time.Millisecond, Jitter: -1}}))
			r, _ := s.run(t, jobs.Queue{
				Gate: g, Concurrency: 50, Backoff: backoff.Exponential{Delay: time.Second / 24, Max: 6 * time.Minute, Jitter: -1},
				Handler: func(_ context.Context, job jobs.Job) error {
					switch down := time.Now().Before(end); {
					case down && limited:
						return refusal{}
					case down:
						return errors.New("503")
					}
					mu.Lock()
					defer mu.Unlock()
					served[job.ID]++
					return nil
				},
			})
			for range n {
				enqueue(t, r, jobs.Job{Retain: time.Hour})
			}
			require.Eventually(t, func() bool { return s.counts(t).Done == n }, 10*time.Minute, 200*time.Millisecond)
			require.Zero(t, r.Stats().Failed)
			require.Equal(t, limited, r.Stats().Retried == 0)
			require.Len(t, served, n)
			for id, times := range served {
				require.Equal(t, 1, times, id)
			}
		})
	}
}

// A refusal is an error that gate.Classify takes for a limit.
type refusal struct{}

func (refusal) Error() string             { return "refused" }
func (refusal) RetryAfter() time.Duration { return 0 }

func TestOutage(t *testing.T) {
	t.Parallel()
	outage(t, 100)
}

// A job that has ended while Redis is gone for some seconds does not run again.
func TestEndDuringOutage(t *testing.T) {
	t.Parallel()
	s := start(t, asynqjobs.Config{})
	proxy := redistest.StartProxy(t, s.server.Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr})
	t.Cleanup(func() { _ = client.Close() })
	through := s
	through.engine = core.Must(asynqjobs.New(client, asynqjobs.Config{}))
	const n = 10
	var runs atomic.Int64
	release := make(chan struct{})
	r, _ := through.run(t, jobs.Queue{Concurrency: n, Handler: func(context.Context, jobs.Job) error {
		runs.Add(1)
		<-release
		return nil
	}})
	for range n {
		enqueue(t, r, jobs.Job{})
	}
	eventually(t, func() bool { return runs.Load() == n }, "they run")
	proxy.Cut()
	close(release)
	eventually(t, func() bool { return r.Stats().Succeeded == n }, "they have ended")
	time.Sleep(4 * time.Second) // longer than a server without work would live
	require.Equal(t, n, s.counts(t).Active)
	proxy.Resume()
	eventually(t, func() bool { return s.counts(t) == groups.Counts{} }, "their ends are noted")
	require.EqualValues(t, n, runs.Load())
}
