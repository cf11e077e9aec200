package limits

import (
	"github.com/gresil/gresil/core/ratelimit/driver"
	"github.com/gresil/gresil/internal/closed"
)

// MaxLimits is how many limits hold a key at a time.
const MaxLimits = len(driver.Receipt{}.Plans)

// ErrClosed is the error of a closed limiter or store.
var ErrClosed error = &closed.Error{Text: "ratelimit: closed"}

// A ChangingTable is a Table that learns at once that a limit was changed, and not with the next
// operation.
type ChangingTable interface {
	driver.Table
	// Changed is called after the limit of most calls was changed.
	Changed(c *driver.Change)
	// ChangedKey is called after the limit of one key was changed; of is the last change of the
	// limit of most calls, or nil.
	ChangedKey(key string, of, c *driver.Change)
}

// A CountingTable is a Table that counts its keys.
type CountingTable interface {
	driver.Table
	// Counts returns the keys that it holds, and how many it dropped with a debt.
	Counts() (keys int, evicted uint64)
}
