//go:build soak

package asynqjobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

// The lease of asynq is 30 seconds, and the margin 25.
func TestSoakKilledWorker(t *testing.T) {
	t.Parallel()
	took := survive(t, false)
	t.Logf("redelivered %v after the kill", took)
	require.Greater(t, took, 50*time.Second)
	require.Less(t, took, 100*time.Second)
}

func TestSoakNeverEarlyNorBlunt(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{1500 * time.Millisecond, 2300 * time.Millisecond} {
		t.Run(wait.String(), func(t *testing.T) {
			t.Parallel()
			earliest, latest := runAtTimes(t, start(t, asynqjobs.Config{}), wait, 2, 100)
			t.Logf("200 times: %v to %v after the time", earliest, latest)
			require.GreaterOrEqual(t, earliest, time.Duration(0))
			require.Less(t, latest, 2500*time.Millisecond)
		})
	}
}

func TestSoakOutage(t *testing.T) {
	t.Parallel()
	outage(t, 100_000)
}
