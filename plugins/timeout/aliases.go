package timeout

import "github.com/gresil/gresil/core/timeout"

// The types of core/timeout that this package uses, so that one import is enough.
type (
	// Error is the error of an exchange that was over its limit, and the cause with
	// which its context ends.
	Error = timeout.Error
	// Stats are counts since the plugin was made.
	Stats = timeout.Stats
)

// ErrTimeout is matched by every [*Error].
var ErrTimeout = timeout.ErrTimeout
