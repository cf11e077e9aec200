//go:build soak

package asynqjobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

// The lease of asynq is 30 seconds, its margin as long, and it looks once a minute.
func TestSoakTheJobsOfAKilledWorkerRunAgain(t *testing.T) {
	t.Parallel()
	took := survive(t, false)
	t.Logf("redelivered %v after the kill", took)
	require.Greater(t, took, 50*time.Second)
	require.Less(t, took, 150*time.Second)
}

func TestSoakATaskIsNeverEarlyAndNotBlunt(t *testing.T) {
	t.Parallel()
	for _, inline := range []time.Duration{0, -1} {
		t.Run(fmt.Sprint(inline), func(t *testing.T) {
			t.Parallel()
			earliest, latest := runAtTimes(t, start(t, asynqjobs.Config{Inline: inline}), 2, 100)
			t.Logf("200 times: %v to %v after the time", earliest, latest)
			require.GreaterOrEqual(t, earliest, time.Duration(0))
			require.Less(t, latest, 2500*time.Millisecond)
		})
	}
}
