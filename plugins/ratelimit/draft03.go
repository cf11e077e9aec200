package ratelimit

import "time"

// draft03 are the fields of HeaderDraft03. The reset is the number of seconds until there
// is one permit more.
var draft03 = trio{ //nolint:gochecknoglobals // a constant
	HeaderDraft03, "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", func(next, _ time.Duration) int64 { return seconds(next) },
}
