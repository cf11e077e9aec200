package ratelimit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gresil/gresil/internal/limits"
)

// For the tests of this package.
const (
	MaxPermits = limits.MaxPermits
	MaxPeriod  = limits.MaxPeriod
)

// Every is a limit of n permits in a period, by each algorithm.
func Every(n int64, period time.Duration) []Limit {
	return []Limit{
		FixedWindow(n, period), AlignedWindow(n, period), TokenBucket(n, period, n),
		SlidingWindow(n, period, 10), SlidingCounter(n, period), SlidingLog(n, period),
	}
}

// A LimitTest is a test of a limit, in virtual time.
type LimitTest struct {
	*testing.T
	Limit Limit
}

// EachLimit has a test of each limit.
func EachLimit(t *testing.T, all []Limit, test func(t LimitTest)) {
	t.Helper()
	for _, l := range all {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(LimitTest{t, l}) })
		})
	}
}

// FillKeyLimits leaves room for so many keys with a limit of their own.
func FillKeyLimits(l *Limiter, room int64) { l.keyLimits.n.Store(maxKeyLimits - room) }
