package logs_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/logs"
	"github.com/gresil/gresil/outbound/jobs"
)

func TestTheStepsOfARunner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		b, _ := newBook(t, registry, slog.LevelInfo, logs.Config{Keys: true})
		r := core.Must(jobs.New(jobs.Config{Name: "calls", Registry: registry, Queues: map[string]jobs.Queue{"sms": {Handler: func(context.Context, jobs.Job) error {
			return core.Permanent(errDown)
		}}}}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		_ = core.Must(r.Enqueue(ctx, jobs.Job{Queue: "sms", ID: "a"}))
		synctest.Wait()
		cancel()
		require.NoError(t, <-ended)
		require.Equal(t, []string{`level=WARN msg="job failed" kind=jobs name=calls key=a queue=sms err=down count=1`}, b.read())
	})
}
