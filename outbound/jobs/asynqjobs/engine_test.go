package asynqjobs_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

func TestMain(m *testing.M) {
	logging.Disable() // of connections to servers that the tests stop
	if value, ok := os.LookupEnv(processVar); ok {
		if err := processMain(value); err != nil {
			fmt.Fprintln(os.Stderr, "process:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := flag.Set("test.parallel", "12"); err != nil { // the tests wait rather than compute
		panic(err)
	}
	os.Exit(m.Run())
}

// A setup is an engine over a server of its own.
type setup struct {
	groups.Queue

	engine    *jobs.Engine
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
	return setup{groups.Open(engine), engine, client, server, asynq.NewInspectorFromRedisClient(client)}
}

// run runs a handler for the queue "q", until the test ends or stop is called.
func (s setup) run(t *testing.T, q jobs.Queue) (r *jobs.Runner, stop func()) {
	t.Helper()
	r, err := jobs.New(jobs.Config{Engine: s.engine, Queues: map[string]jobs.Queue{"q": q}})
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

// counts returns those of the queue "q".
func (s setup) counts(t *testing.T) groups.Counts {
	t.Helper()
	all, err := s.Inspect(t.Context(), "q")
	require.NoError(t, err)
	return all[0]
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

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	require.NoError(t, asynqjobs.Config{}.Validate())
	require.NoError(t, asynqjobs.Config{Poll: time.Second}.Validate())
	for _, poll := range []time.Duration{-1, 1, time.Second + 1} {
		require.EqualError(t, asynqjobs.Config{Poll: poll}.Validate(), fmt.Sprintf("asynqjobs.Config.Poll = %v: must be 1ms to 1s (0 means 100ms)", poll))
	}
	for _, prefix := range []string{"a b", "{x}", strings.Repeat("x", 65), "\u00fc"} {
		require.ErrorContains(t, asynqjobs.Config{Prefix: prefix}.Validate(), "asynqjobs.Config.Prefix = "+prefix+": must be up to 64 letters")
	}
	_, err := asynqjobs.New(nil, asynqjobs.Config{})
	require.ErrorIs(t, err, core.ErrConfig)
	_, err = asynqjobs.New(redis.NewClient(&redis.Options{}), asynqjobs.Config{Poll: -1})
	require.ErrorIs(t, err, core.ErrConfig)
}

// The end of the caller is no error of the server: asynq does not wrap the errors of contexts.
func TestEndOfCaller(t *testing.T) {
	t.Parallel()
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	e := groups.Open(core.Must(asynqjobs.New(client, asynqjobs.Config{})))
	require.NoError(t, e.Enqueue(t.Context(), groups.Job{ID: "a", Queue: "q"}, 9))
	cause := errors.New("the caller has left")
	operations := map[string]func(ctx context.Context) error{
		"Enqueue": func(ctx context.Context) error { return e.Enqueue(ctx, groups.Job{ID: "b", Queue: "q"}, 9) },
		"Hold":    func(ctx context.Context) error { return e.Hold(ctx, "q", time.Now().Add(time.Minute)) },
		"Pause":   func(ctx context.Context) error { return e.Control(ctx, "q", groups.Pause, "") },
		"Inspect": func(ctx context.Context) error { _, err := e.Inspect(ctx, "q"); return err },
		"Delete":  func(ctx context.Context) error { return e.Control(ctx, "q", groups.Delete, "a") },
	}
	left, leave := context.WithCancelCause(t.Context())
	leave(cause)
	for name, operation := range operations {
		require.Equal(t, cause, operation(left), name)
	}
	proxy.Swallow()
	for name, operation := range operations {
		ctx, cancel := context.WithDeadlineCause(t.Context(), time.Now().Add(20*time.Millisecond), cause)
		require.Equal(t, cause, operation(ctx), name)
		cancel()
	}
}

// A failed job that could not be replaced, as Redis is full, is kept.
func TestReplaceWhenRedisIsFull(t *testing.T) {
	t.Parallel()
	s, ctx := start(t, asynqjobs.Config{}), t.Context()
	r, stop := s.run(t, jobs.Queue{Handler: func(context.Context, jobs.Job) error { return core.Permanent(errors.New("no")) }})
	enqueue(t, r, jobs.Job{ID: "a"})
	eventually(t, func() bool { return s.counts(t).Failed == 1 }, "it has failed")
	stop()
	require.NoError(t, s.client.ConfigSet(ctx, "maxmemory", "1").Err())
	_, err := r.Enqueue(ctx, jobs.Job{Queue: "q", ID: "a"})
	require.ErrorContains(t, err, "OOM")
	require.NoError(t, s.client.ConfigSet(ctx, "maxmemory", "0").Err())
	require.Equal(t, groups.Counts{Failed: 1}, s.counts(t))
	enqueue(t, r, jobs.Job{ID: "a"})
	require.Equal(t, 1, s.counts(t).Pending)
}

// After a failover behind one address, connections that are open lead to the demoted server.
func TestFailoverBehindOneAddress(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, send := range map[string]func(groups.Queue) error{
		"Enqueue": func(e groups.Queue) error { return e.Enqueue(ctx, groups.Job{ID: "second", Queue: "q"}, 9) },
		"Delete":  func(e groups.Queue) error { return e.Control(ctx, "q", groups.Delete, "first") },
		"Pause":   func(e groups.Queue) error { return e.Control(ctx, "q", groups.Pause, "") },
		"Resume":  func(e groups.Queue) error { return e.Control(ctx, "q", groups.Resume, "") },
		"Hold":    func(e groups.Queue) error { return e.Hold(ctx, "q", time.Now().Add(time.Hour)) },
		"Run": func(e groups.Queue) error { // of a job that was lost
			running, stop := context.WithCancel(ctx)
			e.Run(running, "q", groups.Worker{Concurrency: 1, Handle: func(context.Context, groups.Entry) groups.Verdict {
				stop()
				return groups.Verdict{}
			}})
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const idle = 40
			r := redistest.StartRelay(t) //nolint:contextcheck // servers of the test
			client := redis.NewClient(&redis.Options{Addr: r.Addr, PoolSize: 2 * idle})
			t.Cleanup(func() { _ = client.Close() })
			e := groups.Open(core.Must(asynqjobs.New(client, asynqjobs.Config{})))
			require.NoError(t, e.Enqueue(ctx, groups.Job{ID: "first", Queue: "q"}, 9))
			if name == "Run" {
				require.NoError(t, client.LMove(ctx, "asynq:{q}:pending", "asynq:{q}:active", "left", "left").Err())
				require.NoError(t, client.ZAdd(ctx, "asynq:{q}:lease", redis.Z{Member: "first"}).Err())
			}
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
			require.NoError(t, send(e))
		})
	}
}
