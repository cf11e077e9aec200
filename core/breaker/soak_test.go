//go:build soak

package breaker_test

import "testing"

// TestSoakMillionKeys asks a group of 10,000 for a million breakers.
func TestSoakMillionKeys(t *testing.T) { manyKeys(t, 1_000_000) }
