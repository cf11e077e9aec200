package ratelimit

import "github.com/gresil/gresil/internal/limits"

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

// parts are the limits that And has joined.
func parts(l Limit) (all []Limit) {
	for _, s := range limits.Limit(l).Specs() {
		all = append(all, of(s))
	}
	return all
}
