package retry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/retry"
)

func TestNothingIsSuppressedWhereNoAttemptWasLeft(t *testing.T) {
	t.Parallel()
	for _, attempts := range []int{1, 2} {
		for name, end := range map[string]func(cancel func()) error{
			"rejected":          func(func()) error { return core.ErrRejected },
			"waiting is no use": func(func()) error { return rejection{after: -1} },
			"canceled":          func(cancel func()) error { cancel(); return errBoom },
		} {
			var events []string
			p := core.Must(retry.New(retry.Config{MaxAttempts: attempts, Backoff: backoff.Constant{}, Registry: noted(&events), RetryRejected: name == "waiting is no use"}))
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			_, err := retry.Do(ctx, p, func(context.Context) (int, error) {
				if calls++; calls < attempts {
					return 0, errBoom
				}
				return 0, end(cancel)
			})
			require.Error(t, err)
			require.Equal(t, attempts, calls)
			s := p.Stats()
			require.Zero(t, s.Suppressed, name)
			require.EqualValues(t, 1, s.FinalFailures, name)
			require.Contains(t, events[len(events)-1], "ignored", name)
			cancel()
		}
	}
}

func TestAWaitCountsFromTheEndOfTheAttempt(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tt := range []struct {
		name    string
		cfg     retry.Config
		floor   time.Duration
		before  time.Duration // between the end of the attempt and Next
		between time.Duration // between Next and Wait
		next    time.Duration // when the next attempt starts
		verdict retry.Verdict
	}{
		{"at once", retry.Config{Backoff: backoff.Constant{Delay: 800 * ms}}, 0, 0, 0, 800 * ms, retry.Again},
		{"before Next", retry.Config{Backoff: backoff.Constant{Delay: 800 * ms}}, 0, 300 * ms, 0, 800 * ms, retry.Again},
		{"after Next", retry.Config{Backoff: backoff.Constant{Delay: 800 * ms}}, 0, 0, 500 * ms, 800 * ms, retry.Again},
		{"longer than the wait", retry.Config{Backoff: backoff.Constant{Delay: 100 * ms}}, 0, 300 * ms, 500 * ms, 800 * ms, retry.Again},
		{"no wait", retry.Config{Backoff: backoff.Constant{}}, 0, 300 * ms, 500 * ms, 800 * ms, retry.Again},
		{"floor", retry.Config{Backoff: backoff.Constant{Delay: 100 * ms}}, 800 * ms, 300 * ms, 200 * ms, 800 * ms, retry.Again},
		{"floor and Delay", retry.Config{Delay: func(context.Context, retry.Info) time.Duration { time.Sleep(200 * ms); return 0 }}, 800 * ms, 300 * ms, 200 * ms, 800 * ms, retry.Again},
		{"Delay counts from its return", retry.Config{Delay: func(context.Context, retry.Info) time.Duration { time.Sleep(200 * ms); return 400 * ms }}, 0, 200 * ms, 300 * ms, 800 * ms, retry.Again},
		{"within MaxElapsed", retry.Config{Backoff: backoff.Constant{Delay: 800 * ms}, MaxElapsed: 801 * ms}, 0, 300 * ms, 500 * ms, 800 * ms, retry.Again},
		{"reaches MaxElapsed", retry.Config{Backoff: backoff.Constant{Delay: 800 * ms}, MaxElapsed: 800 * ms}, 0, 0, 0, 0, retry.Deadline},
		{"past MaxElapsed already", retry.Config{Backoff: backoff.Constant{Delay: 100 * ms}, MaxElapsed: 300 * ms}, 0, 300 * ms, 0, 0, retry.Deadline},
		{"a century", retry.Config{Backoff: backoff.Constant{}, MaxElapsed: time.Hour}, 1<<63 - 1, 0, 0, 0, retry.RetryAfterTooLong},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := core.Must(retry.New(tt.cfg)).Begin(nil)
				ended := time.Now()
				time.Sleep(tt.before)
				c.EndedAt(ended)
				verdict := c.Next(t.Context(), retry.Attempt{Err: errBoom, Retryable: true, Floor: tt.floor})
				require.Equal(t, tt.verdict, verdict)
				if verdict != retry.Again {
					return
				}
				time.Sleep(tt.between)
				require.Equal(t, max(0, tt.next-time.Since(ended)), c.Left())
				require.NoError(t, c.Wait(t.Context()))
				require.Equal(t, tt.next, time.Since(ended))
			})
		})
	}
}
