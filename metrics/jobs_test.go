package metrics_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/jobs"
)

func TestJobsSeries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		g := newGatherer(t, registry)
		r := core.Must(jobs.New(jobs.Config{Name: "calls", Registry: registry, Queues: map[string]jobs.Queue{"sms": {Handler: func(context.Context, jobs.Job) error {
			return core.Permanent(errors.New("no"))
		}}}}))
		require.Len(t, samples(t, g, "jobs_"), 16)
		_ = core.Must(r.Enqueue(t.Context(), jobs.Job{Queue: "sms"}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		got := samples(t, g, "jobs_")
		require.Len(t, got, 16)
		requireSample(t, 1, got, "jobs_attempts_total calls failed")
		requireSample(t, 1, got, "jobs_kept_failed calls sms")
		requireSample(t, 0, got, "jobs_pending calls sms")
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, r.Close())
		require.Empty(t, samples(t, g, "jobs_"))
	})
}
