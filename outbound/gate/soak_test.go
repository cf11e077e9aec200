//go:build soak

package gate_test

import (
	"testing"
	"time"

	"github.com/gresil/gresil/internal/quiettest"
)

// At least 85 % of the ideal at a distance of 30 ms.
func TestSoakSharedRate(t *testing.T) {
	quiettest.Repeat(t, func() error { return sharedRate(t, 4*time.Second, 0) })
}

// At least 85 % of the places are used while calls wait, and each process gets at least 15 % of them.
func TestSoakSharedPlaces(t *testing.T) {
	quiettest.Repeat(t, func() error { return sharedPlaces(t, 8*time.Second, 500*time.Millisecond, 0) })
}

// Twenty pauses of each row.
func TestSoakNoCallInsideToldPause(t *testing.T) { noCallInsideToldPause(t, 20) }
