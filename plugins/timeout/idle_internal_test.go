package timeout

import (
	"testing"
	"time"
)

// The timer of a read may go off in the moment in which that ends, and its function
// be late for the next one.
func TestATimerThatIsLateDoesNotEndTheNextRead(t *testing.T) {
	t.Parallel()
	i := idle{limit: time.Hour, strike: func() { t.Error("struck") }}
	i.expire()
	i.begin()
	i.expire()
	i.end()
	i.expire()
}
