package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
)

// Together are all plugins around a base that answers as it is told.
type together struct {
	*resiltest.Script

	total, attempt *timeout.Timeout
	retries        *retry.Client
	limits         *ratelimit.Client
	group          *breaker.Group
	breakers       *breaker.Client
}

func newTogether(t *testing.T) *together {
	t.Helper()
	x := &together{Script: resiltest.NewScript()}
	var err error
	x.total, err = timeout.New(timeout.Config{Name: "total", Limit: time.Minute})
	require.NoError(t, err)
	x.attempt, err = timeout.New(timeout.Config{Name: "attempt", Limit: 2 * time.Second})
	require.NoError(t, err)
	policy, err := retry.New(retry.Config{MaxAttempts: 3, Backoff: backoff.Constant{Delay: time.Second}})
	require.NoError(t, err)
	x.retries = retry.NewClient(policy, retry.ClientOptions{})
	x.limits, err = ratelimit.NewClient(ratelimit.ClientConfig{Limit: ratelimit.FixedWindow(100, time.Hour)})
	require.NoError(t, err)
	x.group, err = breaker.NewGroup(breaker.Config{Window: 4, Trials: 1, OpenDelay: backoff.Constant{Delay: 10 * time.Second}})
	require.NoError(t, err)
	x.breakers = breaker.NewClient(x.group, breaker.ClientOptions{})
	return x
}

func (x *together) plugins() []client.Plugin {
	return []client.Plugin{
		timeout.NewClient(x.attempt, timeout.ClientOptions{PerAttempt: true}), x.breakers, x.limits, x.retries,
		timeout.NewClient(x.total, timeout.ClientOptions{}),
	}
}

func (x *together) get(ctx context.Context, t *testing.T) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://a.test/", http.NoBody)
	require.NoError(t, err)
	resp, err := client.New(x, x.plugins()...).RoundTrip(req)
	if err == nil {
		require.NoError(t, resp.Body.Close())
	}
	return resp, err
}

func TestTogetherTheOrderOfArgumentsDoesNotMatter(t *testing.T) {
	t.Parallel()
	x := newTogether(t)
	const want = "Overall timeout.Client(total) > Attempts retry.Client(default) > Admission *ratelimit.Client(default) > Attempt breaker.Client(default) > Attempt+10 timeout.Client(attempt) > *client_test.together"
	var permute func(head, rest []client.Plugin)
	seen := 0
	permute = func(head, rest []client.Plugin) {
		if len(rest) == 0 {
			seen++
			tr := client.New(x, head...)
			require.Equal(t, want, tr.String())
			require.Empty(t, tr.Check())
		}
		for i := range rest {
			left := append(append([]client.Plugin{}, rest[:i]...), rest[i+1:]...)
			permute(append(append([]client.Plugin{}, head...), rest[i]), left)
		}
	}
	permute(nil, x.plugins())
	require.Equal(t, 120, seen)
}

func TestTogetherEachAttemptCountsAndAnOpenBreakerEndsTheRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTogether(t)
		x.Set(resiltest.Reply{Status: http.StatusServiceUnavailable})
		resp, err := x.get(t.Context(), t)
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "the last response")
		require.Equal(t, 3, x.Calls())

		start := time.Now()
		_, err = x.get(t.Context(), t)
		require.ErrorIs(t, err, breaker.ErrOpen)
		require.NotErrorIs(t, err, core.ErrRejected, "an attempt of this call was made")
		require.False(t, client.NotSent(err))
		require.Equal(t, 4, x.Calls(), "the fourth failure opens it")
		require.Equal(t, time.Second, time.Since(start), "a rejection is not waited for")
		wait, ok := core.RetryAfter(err)
		require.True(t, ok)
		require.Equal(t, 9*time.Second, wait)

		left, err := x.limits.Limiter().Peek(t.Context(), "a.test:80")
		require.NoError(t, err)
		require.EqualValues(t, 96, left.Remaining, "what the breaker rejects is not charged")

		time.Sleep(wait)
		x.Set()
		resp, err = x.get(t.Context(), t)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.Equal(t, breaker.Closed, x.group.For("a.test:80").State())
	})
}

func TestTogetherATimeoutOfOursIsAFailureAndTheCallersIsNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTogether(t)
		x.Set(resiltest.Reply{Delay: -1})
		start := time.Now()
		_, err := x.get(t.Context(), t)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		var te interface{ Timeout() bool }
		require.ErrorAs(t, err, &te)
		require.True(t, te.Timeout())
		require.Equal(t, 3*2*time.Second+2*time.Second, time.Since(start), "three attempts and two waits")
		require.EqualValues(t, 3, x.group.Stats().Failures)

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = x.get(ctx, t)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 4, x.Calls())
		require.EqualValues(t, 3, x.group.Stats().Failures)
		require.EqualValues(t, 1, x.group.Stats().Ignored)
		require.Equal(t, breaker.Closed, x.group.For("a.test:80").State())
	})
}

func TestTogetherTheTotalTimeoutEndsAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTogether(t)
		x.Set(resiltest.Reply{Status: http.StatusServiceUnavailable})
		ctx := x.total.Override(t.Context(), func(c *timeout.Config) { c.Limit = 1500 * time.Millisecond })
		start := time.Now()
		resp, err := x.get(ctx, t)
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "the wait would pass the limit: the response comes at once")
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(t, 2, x.Calls())
	})
}

func TestTogetherOverridesReachOneRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTogether(t)
		x.Set(resiltest.Reply{Status: http.StatusInternalServerError})
		for range 2 {
			_, _ = x.get(t.Context(), t)
		}
		require.Equal(t, 4, x.Calls())
		_, err := x.get(t.Context(), t)
		require.ErrorIs(t, err, breaker.ErrOpen)
		ctx := x.retries.Override(t.Context(), func(c *retry.ClientOptions) { c.Disabled = true })
		ctx = x.breakers.Override(ctx, func(o *breaker.ClientOptions) { o.Disabled = true })
		resp, err := x.get(ctx, t)
		require.NoError(t, err)
		require.Equal(t, http.StatusInternalServerError, resp.StatusCode)
		require.Equal(t, 5, x.Calls())
	})
}

func TestTogetherAPanicGivesEverythingBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTogether(t)
		x.Set(resiltest.Reply{Panic: "base"})
		for range 3 {
			require.PanicsWithValue(t, "base", func() { _, _ = x.get(t.Context(), t) })
		}
		x.Set()
		resp, err := x.get(t.Context(), t)
		require.NoError(t, err, "the next request works")
		require.Equal(t, http.StatusOK, resp.StatusCode)
	})
}

func TestTogetherErrorsAreReachable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x := newTogether(t)
		reset := errors.New("connection reset")
		x.Set(resiltest.Reply{Err: fmt.Errorf("read: %w", reset)})
		_, err := x.get(t.Context(), t)
		require.ErrorIs(t, err, reset)
		require.Equal(t, 3, x.Calls())
	})
}
