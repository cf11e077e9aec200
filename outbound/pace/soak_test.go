//go:build soak

package pace_test

import "testing"

// TestSoakSlots: 100,000 slots, reserved by four processes.
func TestSoakSlots(t *testing.T) { checkSpacing(t, 100_000) }

// TestSoakStops: a process is stopped fifty times.
func TestSoakStops(t *testing.T) { checkStops(t, 6000, 50) }
