package asynqjobs_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

// commands returns the number of commands that the server has executed, those of scripts included.
func (s setup) commands(t *testing.T) (n int) {
	t.Helper()
	for _, line := range strings.Split(s.client.Info(t.Context(), "stats").Val(), "\r\n") {
		if text, ok := strings.CutPrefix(line, "total_commands_processed:"); ok {
			n, _ = strconv.Atoi(text)
		}
	}
	require.Positive(t, n)
	return n
}

// Idle queues cost as much as one, however many there are.
func TestIdleCost(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 200} {
		s := start(t, asynqjobs.Config{})
		queues := map[string]jobs.Queue{}
		for i := range n {
			queues[fmt.Sprint(i)] = jobs.Queue{Handler: func(context.Context, jobs.Job) error { return nil }}
		}
		r, err := jobs.New(jobs.Config{Engine: s.engine, Registry: &core.Registry{}, Queues: queues})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(200 * time.Millisecond)
		began, before := time.Now(), s.commands(t)
		time.Sleep(3 * time.Second)
		rate := float64(s.commands(t)-before) / time.Since(began).Seconds()
		require.Less(t, rate, 40.0, "commands a second for %d queues", n)
		_, err = r.Enqueue(ctx, jobs.Job{Queue: "0"})
		require.NoError(t, err)
		eventually(t, func() bool { return r.Stats().Succeeded == 1 }, "a job has run")
		cancel()
		require.NoError(t, <-ended)
	}
}

// In a Cluster each queue is on one node.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	t.Cleanup(func() { _ = client.Close() })
	engine := core.Must(asynqjobs.New(client, asynqjobs.Config{}))
	queues := map[string]jobs.Queue{}
	for i := range 6 {
		queues[fmt.Sprint("q", i)] = jobs.Queue{Handler: func(context.Context, jobs.Job) error { return nil }}
	}
	r := core.Must(jobs.New(jobs.Config{Engine: engine, Queues: queues}))
	names := []string{}
	for name := range queues {
		names = append(names, name)
		_, err := r.Enqueue(t.Context(), jobs.Job{Queue: name})
		require.NoError(t, err)
		_, err = r.Enqueue(t.Context(), jobs.Job{Queue: name, NotBefore: time.Now().Add(time.Hour)})
		require.NoError(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	eventually(t, func() bool { return r.Stats().Succeeded == 6 }, "all have run")
	eventually(t, func() bool {
		all, err := groups.Open(engine).Inspect(t.Context(), names...)
		require.NoError(t, err)
		for _, c := range all {
			if c.Scheduled != 1 || c.Pending+c.Active > 0 {
				return false
			}
		}
		return true
	}, "one is left of each")
	cancel()
	require.NoError(t, <-ended)
}
