package ratelimit

import (
	"time"

	"github.com/gresil/gresil/internal/header"
)

// A trio is three fields about one limit: its capacity, the permits that are left, and
// a time.
type trio struct {
	names [3]string
	until func(next, full time.Duration) int64 // the value of the third
}

// The places of the names.
const (
	capacity = iota
	remaining
	reset
)

var allTrios = [...]*trio{ //nolint:gochecknoglobals // a constant table
	{[3]string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}, func(_, full time.Duration) int64 {
		now := time.Now()
		return now.Unix() + header.Seconds(time.Duration(now.Nanosecond())+full)
	}},
	{[3]string{"Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset"}, func(next, _ time.Duration) int64 { return header.Seconds(next) }},
}

// trios returns those of a style.
func (s HeaderStyle) trios() []*trio {
	all := allTrios[:]
	if s&HeaderXRateLimit == 0 {
		all = all[1:]
	}
	if s&HeaderDraft03 == 0 {
		all = all[:len(all)-1]
	}
	return all
}

// trio writes three fields.
func (x *fields) trio(t *trio, l *link) {
	x.set(t.names[capacity], l.text.capacity(&l.result))
	x.set(t.names[remaining], x.number(l.result.Remaining))
	x.set(t.names[reset], x.number(t.until(l.result.NextAfter, l.result.FullAfter)))
}
