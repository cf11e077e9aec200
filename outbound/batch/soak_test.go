//go:build soak

package batch_test

import "testing"

func TestSoakOutage(t *testing.T) { outage(t, 100_000, 5000) }
