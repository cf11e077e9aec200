package jobs_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/jobs"
)

// Each outcome of an attempt has a hook, and each of them calls [runtime.Goexit].
func TestAHookThatEndsItsGoroutineFinishesItsJob(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]jobs.Handler{
		"succeeded": func(context.Context, jobs.Job) error { return nil },
		"limited": func(_ context.Context, job jobs.Job) error {
			if time.Since(job.NotBefore) < time.Minute {
				return &rejection{time.Minute}
			}
			return nil
		},
		"failed": func(context.Context, jobs.Job) error { return errors.New("no") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, _ := start(t, jobs.Queue{Concurrency: 2, Hold: time.Second, Handler: handler}, func(c *jobs.Config) {
					quit := func(context.Context, jobs.Event) { runtime.Goexit() }
					c.Hooks = jobs.Hooks{Succeeded: quit, Limited: quit, Retried: quit, Failed: quit, Held: quit, EngineFailed: quit}
				})
				for range 5 {
					enqueue(t, r, jobs.Job{NotBefore: time.Now(), MaxAttempts: 2})
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				info, s := inspect(t, r), r.Stats()
				require.Zero(t, info.Active+info.Pending+info.Scheduled)
				require.EqualValues(t, 5, s.Succeeded+s.Failed)
			})
		})
	}
}
