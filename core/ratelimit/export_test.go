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
