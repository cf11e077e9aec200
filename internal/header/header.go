// Package header writes and checks fields of HTTP headers.
package header

import (
	"strconv"
	"strings"
	"time"
)

// Seconds returns d in seconds, rounded up.
func Seconds(d time.Duration) int64 {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return n
}

// RetryAfter returns the value of Retry-After for a wait that is not negative: seconds,
// rounded up and at least 1.
func RetryAfter(wait time.Duration) string { return strconv.FormatInt(max(1, Seconds(wait)), 10) }

// IsToken reports whether s is a token (RFC 9110, section 5.6.2), as a method and the name
// of a field are.
func IsToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter, digit := 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9'
		if !letter && !digit && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
