package timeout

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestATimerThatIsLateDoesNotStrikeAfterTheHeaders(t *testing.T) {
	t.Parallel()
	struck := 0
	h := &headerWait{limit: time.Hour, strike: func() { struck++ }}
	h.begin()
	h.stop(true)
	h.expire() // it had fired before
	require.Zero(t, struck)
}
