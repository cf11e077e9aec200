package ratelimit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
)

const ms = time.Millisecond

// every is a limit of n permits in a period, by each algorithm.
func every(n int64, period time.Duration) []ratelimit.Limit {
	return []ratelimit.Limit{
		ratelimit.FixedWindow(n, period), ratelimit.AlignedWindow(n, period), ratelimit.TokenBucket(n, period, n),
		ratelimit.SlidingWindow(n, period, 10), ratelimit.SlidingCounter(n, period), ratelimit.SlidingLog(n, period),
	}
}

// A bubble is a test in virtual time, and its limiter.
type bubble struct {
	*testing.T
	l *ratelimit.Limiter
}

// inBubbles runs a test for each limit, in virtual time.
func inBubbles(t *testing.T, limits []ratelimit.Limit, f func(t bubble)) {
	t.Helper()
	for _, limit := range limits {
		t.Run(limit.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { f(bubble{t, newLimiter(t, ratelimit.Config{Limit: limit, MaxWait: -1})}) })
		})
	}
}

// sleepTo sleeps until a time after start.
func sleepTo(start time.Time, d time.Duration) { time.Sleep(time.Until(start.Add(d))) }

// mustPeek looks at a key.
func mustPeek(tb testing.TB, l *ratelimit.Limiter, key string) ratelimit.Result {
	tb.Helper()
	r, err := l.Peek(tb.Context(), key)
	require.NoError(tb, err)
	return r
}

func reserve(tb testing.TB, l *ratelimit.Limiter, n int64, most time.Duration) ratelimit.Result {
	tb.Helper()
	r, err := l.Reserve(tb.Context(), "k", n, most)
	require.NoError(tb, err)
	return r
}

func refund(tb testing.TB, l *ratelimit.Limiter, r ratelimit.Result) ratelimit.Result {
	tb.Helper()
	require.NoError(tb, l.Refund(tb.Context(), r))
	r, err := l.Peek(tb.Context(), "k")
	require.NoError(tb, err)
	return r
}

// waitAt waits in a goroutine and tells how long it took, or that it failed.
func waitAt(ctx context.Context, l *ratelimit.Limiter, n int64) <-chan waited {
	done := make(chan waited, 1)
	start := time.Now()
	go func() {
		r, err := l.Wait(ctx, "k", n)
		done <- waited{r, err, time.Since(start)}
	}()
	synctest.Wait() // it has its place
	return done
}

type waited struct {
	r    ratelimit.Result
	err  error
	took time.Duration
}

// A step is a take at a time and what has to come of it.
type step struct {
	at    time.Duration
	cost  int64
	ok    bool
	left  int64
	full  time.Duration // -1: whatever
	retry time.Duration
}

func follow(tb testing.TB, l *ratelimit.Limiter, steps []step) {
	tb.Helper()
	start := time.Now()
	for i, s := range steps {
		sleepTo(start, s.at)
		r := take(tb, l, "k", s.cost)
		if s.full < 0 {
			r.FullAfter = s.full
		}
		got := step{s.at, s.cost, r.Allowed, r.Remaining, r.FullAfter, r.RetryAfter}
		require.Equal(tb, s, got, "step %d", i)
	}
}

func spec(l ratelimit.Limit) limits.Spec { return limits.Limit(l).Specs()[0] }

// parts are the limits that And has joined.
func parts(l ratelimit.Limit) (all []ratelimit.Limit) {
	for _, s := range limits.Limit(l).Specs() {
		all = append(all, ratelimit.Limit(limits.Of(s)))
	}
	return all
}
