package ratelimit

import "time"

// singleStyles are the styles whose fields are about one limit.
const singleStyles = HeaderXRateLimit | HeaderDraft03

// A trio is three fields about one limit: its capacity, the permits that are left, and
// a time.
type trio struct {
	style                   HeaderStyle
	limit, remaining, reset string
	until                   func(next, full time.Duration) int64 // the value of reset
}

// A variable, since a function that returns it copies it for each request.
var trios = [...]trio{ //nolint:gochecknoglobals // a constant table
	xRateLimit, draft03,
}

// trio writes three fields.
func (x *fields) trio(t *trio, l *link) {
	x.set(t.limit, l.text.capacity(&l.result))
	x.set(t.remaining, x.number(l.result.Remaining))
	x.set(t.reset, x.number(t.until(l.result.NextAfter, l.result.FullAfter)))
}

// seconds returns d in seconds, rounded up.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}
