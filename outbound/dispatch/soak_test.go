//go:build soak

package dispatch_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSoakAPauseIsKnownAtOnce: the vendor answers at once, so that on a quiet machine no call is in flight
// 50ms after it asked one of four processes for a pause.
func TestSoakAPauseIsKnownAtOnce(t *testing.T) {
	for range 5 {
		known, last := stopFour(t, 3*time.Second)
		require.True(t, known)
		t.Logf("the last call arrived after %v", last)
		require.Less(t, last, 50*time.Millisecond)
	}
}
