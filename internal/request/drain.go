package request

import "time"

// DrainTime is the time to read a response that is discarded, by default.
const DrainTime = 500 * time.Millisecond
