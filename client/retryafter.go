package client

import (
	"math"
	"net/http"
	"net/textproto"
	"time"
)

// RetryAfter returns the wait of the Retry-After header of resp, counted from now, the
// time when the response arrived. It is false if there is no valid header
// (RFC 9110, section 10.2.3).
//
// Seconds are digits only: a sign or a fraction is not accepted, and a number that does
// not fit is the longest duration. A date may have any of the three forms, and is taken
// relative to the Date header if that is valid, so that a wrong clock does no harm; a
// past date is 0. Of several lines the longest wait counts.
//
// The result is not clamped, and may be a century.
func RetryAfter(resp *http.Response, now time.Time) (time.Duration, bool) {
	if resp == nil {
		return 0, false
	}
	longest, found := time.Duration(0), false
	for _, line := range resp.Header["Retry-After"] {
		if d, ok := parseRetryAfter(line, resp.Header, now); ok {
			longest, found = max(longest, d), true
		}
	}
	return longest, found
}

func parseRetryAfter(line string, header http.Header, now time.Time) (time.Duration, bool) {
	line = textproto.TrimString(line)
	if line == "" {
		return 0, false
	}
	if d, ok := parseSeconds(line); ok {
		return d, true
	}
	at, err := http.ParseTime(line)
	if err != nil {
		return 0, false
	}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now)), true
}

// parseSeconds reads digits, however many.
func parseSeconds(s string) (time.Duration, bool) {
	seconds := int64(0)
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		if seconds <= math.MaxInt64/int64(time.Second) { // once above, it stays there
			seconds = seconds*10 + int64(c-'0')
		}
	}
	if seconds > math.MaxInt64/int64(time.Second) {
		return math.MaxInt64, true
	}
	return time.Duration(seconds) * time.Second, true
}
