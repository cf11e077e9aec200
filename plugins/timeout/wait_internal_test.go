package timeout

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The timer of a read may go off in the moment in which that ends, and its function
// be late for the next one.
func TestATimerThatIsLateDoesNotEndTheNextRead(t *testing.T) {
	t.Parallel()
	w := wait{limit: time.Hour, strike: func() { t.Error("struck") }}
	w.expire()
	w.begin()
	w.expire()
	w.end(false)
	w.expire()
}

func TestATimerThatIsLateDoesNotStrikeAfterTheHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		struck := 0
		h := &wait{limit: time.Second, strike: func() { struck++ }}
		h.begin()
		h.end(true)
		h.begin() // the transport sends the request once more
		time.Sleep(time.Hour)
		h.expire() // it had fired before
		require.Zero(t, struck)
	})
}
