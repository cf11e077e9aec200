package redisstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

func TestWithin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			deadline time.Duration // of the other context
			looks    int
			ends     time.Duration
			reason   error
		}{
			"time":             {time.Minute, 0, time.Second, context.DeadlineExceeded},
			"earlier deadline": {time.Second / 2, 0, time.Second / 2, context.DeadlineExceeded},
			"after a look":     {time.Minute, 1, time.Second, context.DeadlineExceeded},
			"canceled":         {time.Minute, 1, time.Second / 4, context.Canceled},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
			if c.reason == context.Canceled { //nolint:errorlint // of the table
				time.AfterFunc(c.ends, cancel)
			}
			begun, w := time.Now(), newWithin(ctx, time.Second)
			at, _ := w.Deadline()
			require.Equal(t, min(time.Second, c.deadline), at.Sub(begun), name)
			for range c.looks {
				w.looks()
				select {
				case <-w.Done():
					require.Fail(t, "it has ended", name)
				default:
				}
			}
			require.Nil(t, w.timer)
			require.NoError(t, w.Err(), name)
			<-w.Done()
			require.Equal(t, c.ends, time.Since(begun), name)
			require.ErrorIs(t, w.Err(), c.reason, name)
			w.end()
			cancel()
		}
	})
}

// A waits is a hook that waits for the end of the context, once, without asking for Done before.
type waits struct{}

func (waits) DialHook(next redis.DialHook) redis.DialHook { return next }

func (waits) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, _ redis.Cmder) error {
		<-ctx.Done()
		return ctx.Err()
	}
}

func (waits) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// TestHookThatWaits: a decision ends after Timeout, whatever the hooks of the client do with its context.
func TestHookThatWaits(t *testing.T) {
	t.Parallel()
	client := startServer(t).client(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	client.AddHook(waits{})
	table := open(t, newStore(t, client, Config{Timeout: 50 * time.Millisecond}), "t")
	_, err := table.Apply(t.Context(), "k", planned(t, table, ratelimit.PerHour(10)), limits.Op{Cost: 1})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
