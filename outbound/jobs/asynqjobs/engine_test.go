package asynqjobs_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/internal/tcpproxy"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
	"github.com/gresil/gresil/outbound/jobs/jobstest"
)

func TestMain(m *testing.M) {
	logging.Disable() // of connections to servers that the tests stop
	redistest.Main(processVar, processMain)
	if err := flag.Set("test.parallel", "12"); err != nil { // the tests wait rather than compute
		panic(err)
	}
	os.Exit(m.Run())
}

// A setup is an engine over a server of its own.
type setup struct {
	*asynqjobs.Engine
	client    *redis.Client
	server    *redisserver.Server
	inspector *asynq.Inspector
}

func start(t *testing.T, cfg asynqjobs.Config, args ...string) setup {
	t.Helper()
	server := redistest.Start(t, args...)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	engine, err := asynqjobs.New(client, cfg)
	require.NoError(t, err)
	return setup{engine, client, server, asynq.NewInspectorFromRedisClient(client)}
}

// run runs a handler for the queue "q", until the test ends or stop is called.
func (s setup) run(t *testing.T, q jobs.Queue) (r *jobs.Runner, stop func()) {
	t.Helper()
	r, err := jobs.New(jobs.Config{Engine: s.Engine, Queues: map[string]jobs.Queue{"q": q}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return r, stop
}

func enqueue(t *testing.T, r *jobs.Runner, job jobs.Job) string {
	t.Helper()
	job.Queue = "q"
	id, err := r.Enqueue(context.Background(), job)
	require.NoError(t, err)
	return id
}

// eventually waits on a machine that can be busy.
func eventually(t *testing.T, ok func() bool, text string) {
	t.Helper()
	require.Eventually(t, ok, 30*time.Second, 10*time.Millisecond, text)
}

func TestAsynqIsAnEngine(t *testing.T) {
	t.Parallel()
	engine := start(t, asynqjobs.Config{})
	for name, test := range jobstest.All() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, engine)
		})
	}
}

// Without waits in the process, all times are those of asynq.
func TestAsynqIsAnEngineWithoutInlineWaits(t *testing.T) {
	t.Parallel()
	engine := start(t, asynqjobs.Config{Inline: -1, PollScheduled: 20 * time.Millisecond, Poll: 10 * time.Millisecond})
	for name, test := range jobstest.All() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, engine)
		})
	}
}

func TestValidateReportsEveryField(t *testing.T) {
	t.Parallel()
	require.NoError(t, asynqjobs.Config{}.Validate())
	require.NoError(t, asynqjobs.Config{Poll: time.Minute, PollScheduled: time.Millisecond, Inline: -1}.Validate())
	require.Error(t, asynqjobs.Config{Poll: -1}.Validate())
	err := asynqjobs.Config{Poll: 1, PollScheduled: time.Hour, Inline: time.Minute, ShutdownTimeout: -1}.Validate()
	require.EqualError(t, err, "asynqjobs.Config.Poll = 1ns: must be 1ms to 1m0s (0 means 25ms)\n"+
		"asynqjobs.Config.PollScheduled = 1h0m0s: must be 1ms to 1m0s (0 means 200ms)\n"+
		"asynqjobs.Config.Inline = 1m0s: must be at most 10s (0 means 2s)\n"+
		"asynqjobs.Config.ShutdownTimeout = -1ns: must be >= 0 (0 means 1m0s)")
	_, err = asynqjobs.New(nil, asynqjobs.Config{})
	require.ErrorIs(t, err, core.ErrConfig)
	_, err = asynqjobs.New(redis.NewClient(&redis.Options{}), asynqjobs.Config{Poll: 1})
	require.ErrorIs(t, err, core.ErrConfig)
}

// TestTheEndOfTheCallerIsNoErrorOfTheServer: asynq does not wrap the errors of contexts.
func TestTheEndOfTheCallerIsNoErrorOfTheServer(t *testing.T) {
	t.Parallel()
	proxy, err := tcpproxy.Start(redistest.Start(t).Addr)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	engine, err := asynqjobs.New(client, asynqjobs.Config{})
	require.NoError(t, err)
	job := jobs.Job{Queue: "q", Kind: "q"}
	job.ID = "a"
	require.NoError(t, engine.Enqueue(t.Context(), job))
	cause := errors.New("the caller has left")
	operations := map[string]func(ctx context.Context) error{
		"Enqueue": func(ctx context.Context) error { job.ID = "b"; return engine.Enqueue(ctx, job) },
		"Hold":    func(ctx context.Context) error { return engine.Hold(ctx, "q", time.Now().Add(time.Minute)) },
		"Pause":   func(ctx context.Context) error { return engine.Pause(ctx, "q") },
		"Inspect": func(ctx context.Context) error { _, err := engine.Inspect(ctx, "q"); return err },
		"Delete":  func(ctx context.Context) error { return engine.Delete(ctx, "q", "a") },
	}
	left, leave := context.WithCancelCause(t.Context())
	leave(cause)
	for name, operation := range operations {
		require.Equal(t, cause, operation(left), name)
	}
	proxy.Swallow()
	delete(operations, "Delete") // it has no context
	for name, operation := range operations {
		ctx, cancel := context.WithDeadlineCause(t.Context(), time.Now().Add(20*time.Millisecond), cause)
		require.Equal(t, cause, operation(ctx), name)
		cancel()
	}
}

// TestAFailoverBehindOneAddress: connections that are open lead to the demoted server.
func TestAFailoverBehindOneAddress(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, send := range map[string]func(*asynqjobs.Engine) error{
		"Enqueue": func(e *asynqjobs.Engine) error {
			return e.Enqueue(ctx, jobs.Job{ID: "second", Queue: "q", Kind: "k", MaxAttempts: 1})
		},
		"Delete": func(e *asynqjobs.Engine) error { return e.Delete(ctx, "q", "first") },
		"Pause":  func(e *asynqjobs.Engine) error { return e.Pause(ctx, "q") },
		"Resume": func(e *asynqjobs.Engine) error { return e.Resume(ctx, "q") },
		"Hold":   func(e *asynqjobs.Engine) error { return e.Hold(ctx, "q", time.Now().Add(time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const idle = 40
			r := redistest.StartRelay(t) //nolint:contextcheck // servers of the test
			client := redis.NewClient(&redis.Options{Addr: r.Addr, PoolSize: 2 * idle})
			t.Cleanup(func() { _ = client.Close() })
			engine, err := asynqjobs.New(client, asynqjobs.Config{})
			require.NoError(t, err)
			require.NoError(t, engine.Enqueue(ctx, jobs.Job{ID: "first", Queue: "q", Kind: "k", MaxAttempts: 1}))
			var open []*redis.Conn
			for range idle {
				conn := client.Conn()
				require.NoError(t, conn.Ping(ctx).Err())
				open = append(open, conn)
			}
			for _, conn := range open {
				require.NoError(t, conn.Close())
			}
			r.Swap(t, false, "replicaof %s") //nolint:contextcheck // as above
			require.NoError(t, send(engine))
		})
	}
}
