package ratelimit

import "github.com/gresil/gresil/core/ratelimit/driver"

// Never is the RetryAfter of a cost that does not fit into the limit at all, so
// that waiting does not help.
const Never = driver.Never

// A Result is what an operation on a key decided, and how the key stands after it.
type Result = driver.Result
