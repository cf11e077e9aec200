package redisstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
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
				w.begin()
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
