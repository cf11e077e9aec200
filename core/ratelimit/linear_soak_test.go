//go:build soak

package ratelimit_test

import "testing"

// TestSoakLinear: 16 goroutines x 1,000,000 takes of one key are as if they had come
// one after the other. A bucket of 4 million gains one permit in 39s.
func TestSoakLinear(t *testing.T) {
	for name, limit := range linearLimits(4_000_000) {
		t.Run(name, func(t *testing.T) { checkLinear(t, limit, 1_000_000) })
	}
}
