//go:build soak

package breaker_test

import "testing"

// TestSoakMillionKeys asks a group of 10,000 for a million breakers.
func TestSoakMillionKeys(t *testing.T) { manyKeys(t, 1_000_000) }

func TestSoakModel(t *testing.T)           { checkModel(t, 300) }
func TestSoakConcurrentCalls(t *testing.T) { checkLinear(t, 30) }
func TestSoakOpenIsKept(t *testing.T)      { checkOpenIsKept(t, 100_000) }
func TestSoakStorm(t *testing.T)           { checkStorm(t, 50_000) }
