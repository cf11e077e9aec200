package keyvalue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
)

func newRows(t *testing.T, limit ratelimit.Limit) *ratelimit.Limiter {
	t.Helper()
	l, err := ratelimit.New(ratelimit.Config{Name: "values", Store: &database{rows: map[string][]byte{}}, Limit: limit})
	require.NoError(t, err)
	return l
}

func take(t *testing.T, l *ratelimit.Limiter, n int64) ratelimit.Result {
	t.Helper()
	r, err := l.Take(t.Context(), "k", n)
	require.NoError(t, err)
	return r
}

func TestAKeyThatRestedBeforeAChangeHasNoUsageToCarryOver(t *testing.T) {
	t.Parallel()
	for rest := 2 * time.Second; rest < 365*24*time.Hour; rest = rest * 11 / 10 {
		synctest.Test(t, func(t *testing.T) {
			l := newRows(t, ratelimit.PerSecond(1_000_000))
			require.True(t, take(t, l, 1_000_000).Allowed)
			time.Sleep(rest)
			require.NoError(t, l.SetLimit(ratelimit.PerHour(100)))
			require.True(t, take(t, l, 100).Allowed, rest)
		})
	}
}

func TestTheAgeOfUsageThatWasCarriedOverBeginsAtTheChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newRows(t, ratelimit.FixedWindow(1_000_000, 24*time.Hour))
		require.True(t, take(t, l, 1_000_000).Allowed)
		time.Sleep(time.Hour)
		require.NoError(t, l.SetLimit(ratelimit.PerSecond(1_000_000)))
		time.Sleep(300 * time.Millisecond)
		require.Equal(t, 700*time.Millisecond, take(t, l, 1).RetryAfter)
	})
}
