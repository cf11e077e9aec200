package ratelimit

import (
	"testing"
	"testing/synctest"

	"github.com/gresil/gresil/internal/limits"
)

// For the tests of this package.
const (
	DefaultMaxKeys = defaultMaxKeys
	MaxMaxKeys     = maxMaxKeys
	MaxPermits     = limits.MaxPermits
	MaxLogPermits  = limits.MaxLogPermits
	MaxPeriod      = limits.MaxPeriod
	MaxLimits      = limits.MaxLimits
)

func spec(l Limit) limits.Spec { return limits.Limit(l).Specs()[0] }

// EachLimit has a test of each limit, in virtual time.
func EachLimit(t *testing.T, all []Limit, test func(t *testing.T, l Limit)) {
	t.Helper()
	for _, l := range all {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, l) })
		})
	}
}

// parts are the limits that And has joined.
func parts(l Limit) (all []Limit) {
	for _, s := range limits.Limit(l).Specs() {
		all = append(all, of(s))
	}
	return all
}
