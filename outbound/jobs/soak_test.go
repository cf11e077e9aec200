//go:build soak

package jobs_test

import "testing"

func TestSoakOutage(t *testing.T) {
	t.Parallel()
	outage(t, 100_000)
}
