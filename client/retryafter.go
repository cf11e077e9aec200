package client

import (
	"math"
	"net/http"
	"net/textproto"
	"strings"
	"time"
)

// RetryAfter returns how long a response says that the client should wait, from its
// arrival: call it then. It is false if the response does not say it. The first of these
// that asks for a wait counts:
//
//   - retry-after-ms of a status from 400 on, in milliseconds
//   - Retry-After of a status from 400 on, in seconds or as an HTTP date, also one with UTC
//     or +0000 instead of GMT; of several lines the longest wait
//   - RateLimit, a list as in draft 10 or a dictionary as in draft 07; of several policies the
//     longest wait among those with nothing left
//   - RateLimit-Remaining and RateLimit-Reset, if nothing remains
//   - X-RateLimit-Remaining and X-RateLimit-Reset, if nothing remains
//
// All but the first two count with any status, unless the response comes out of a cache
// (Age). A reset below 10⁹ is in seconds from now, from 10¹² on a Unix time in milliseconds,
// otherwise one in seconds. What else a vendor means by such a field is not guessed: that is for a
// function of your own.
//
// A date, which servers cut to the second, counts to the end of that second. Dates and Unix
// times are taken relative to the Date of the response, so that a wrong clock does no harm.
// Numbers can have decimals, and are rounded up to the nanosecond; one that does not fit is the longest
// duration. A field that cannot be read, 0, a negative number and a past time say nothing:
// a limited call is never repeated at once. The result is not clamped: it can be a century.
func RetryAfter(resp *http.Response) (time.Duration, bool) {
	if resp == nil || len(resp.Header) == 0 {
		return 0, false
	}
	h := resp.Header
	wait := time.Duration(0)
	if resp.StatusCode >= http.StatusBadRequest {
		if wait = longest(h["Retry-After-Ms"], readMillis); wait <= 0 {
			wait = longest(h["Retry-After"], func(s string) time.Duration { return readRetryAfter(s, h) })
		}
	}
	if wait <= 0 {
		wait = readLimits(h)
	}
	return wait, wait > 0
}

// longest returns the longest wait of some lines of one field, and 0 if there is none.
func longest(lines []string, read func(string) time.Duration) (wait time.Duration) {
	for _, line := range lines {
		wait = max(wait, read(textproto.TrimString(line)))
	}
	return wait
}

func readMillis(s string) time.Duration {
	n, _ := parseNumber(s)
	return n.times(time.Millisecond)
}

func readRetryAfter(s string, h http.Header) time.Duration {
	if n, ok := parseNumber(s); ok {
		return n.times(time.Second)
	}
	at, ok := parseDate(s)
	if !ok {
		return 0
	}
	return at.Add(time.Second).Sub(serverNow(h))
}

// readLimits returns the wait of the fields about a limit of which nothing remains.
func readLimits(h http.Header) time.Duration {
	field, draft, x := h["Ratelimit"], h["Ratelimit-Reset"], h["X-Ratelimit-Reset"]
	if len(field)+len(draft)+len(x) == 0 {
		return 0
	}
	if age, ok := parseNumber(textproto.TrimString(h.Get("Age"))); ok && age != (number{}) {
		return 0
	}
	wait := readStructured(strings.Join(field, ","))
	if wait <= 0 {
		wait = readPair(h["Ratelimit-Remaining"], draft, h)
	}
	if wait <= 0 {
		wait = readPair(h["X-Ratelimit-Remaining"], x, h)
	}
	return wait
}

// readPair reads two fields about one limit. Several servers on the way may have added a
// line each, to both.
func readPair(remaining, resets []string, h http.Header) (wait time.Duration) {
	if len(remaining) != len(resets) {
		return 0
	}
	for i, line := range remaining {
		left, ok := parseNumber(textproto.TrimString(line))
		if ok && left == (number{}) {
			wait = max(wait, readReset(textproto.TrimString(resets[i]), h))
		}
	}
	return wait
}

// Numbers from these on are a Unix time, in seconds and in milliseconds.
const (
	firstUnix      = 1e9
	firstUnixMilli = 1e12
)

func readReset(s string, h http.Header) time.Duration {
	n, _ := parseNumber(s)
	switch {
	case n.whole < firstUnix:
		return n.times(time.Second)
	case n.whole < firstUnixMilli:
		return time.Unix(n.whole, n.billionths).Sub(serverNow(h))
	}
	millis := number{n.whole % 1000, n.billionths}
	return time.Unix(n.whole/1000, int64(millis.times(time.Millisecond))).Sub(serverNow(h))
}

// readStructured reads RateLimit, a structured field.
func readStructured(field string) (wait time.Duration) {
	remaining, reset := "", "" // of a dictionary
	valid := sfMembers(field, func(m sfMember) {
		switch m.name {
		case "remaining":
			remaining = m.value
		case "reset":
			reset = m.value
		case "":
			wait = max(wait, usedUp(m.r, m.t))
		}
	})
	if !valid {
		return 0
	}
	return max(wait, usedUp(remaining, reset))
}

// usedUp returns the wait of a limit, or 0 if something remains.
func usedUp(remaining, seconds string) time.Duration {
	left, ok := parseNumber(remaining)
	if !ok || left != (number{}) {
		return 0
	}
	n, _ := parseNumber(seconds)
	return n.times(time.Second)
}

// serverNow returns the time at which the server sent its response, by its own clock if it
// says it.
func serverNow(h http.Header) time.Time {
	if date, ok := parseDate(textproto.TrimString(h.Get("Date"))); ok {
		return date
	}
	return time.Now()
}

// parseDate reads an HTTP date. An abbreviation of another zone is refused: package time
// takes one that it does not know for UTC.
func parseDate(s string) (time.Time, bool) {
	if day, ok := strings.CutSuffix(s, " UTC"); ok {
		s = day + " GMT"
	}
	if at, err := http.ParseTime(s); err == nil {
		zone, _ := at.Zone()
		return at, zone == "UTC" || zone == "GMT"
	}
	at, err := time.Parse(time.RFC1123Z, s)
	return at, err == nil
}

// A number is one that is not negative.
type number struct {
	whole      int64 // at most mostWhole
	billionths int64 // rounded up, at most 1e9
}

// mostWhole is above every number that makes a difference: in milliseconds it is 146 million years.
const mostWhole = math.MaxInt64 / 2

// parseNumber reads digits, however many, with or without a fraction. If it is false, the number is 0.
func parseNumber(s string) (n number, ok bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	if whole == "" && fraction == "" {
		return number{}, false
	}
	for _, c := range []byte(whole) {
		if c < '0' || c > '9' {
			return number{}, false
		}
		if n.whole < mostWhole/10 { // once above, it stays there
			n.whole = n.whole*10 + int64(c-'0')
		} else {
			n.whole = mostWhole
		}
	}
	up := false
	for i, place := 0, int64(1e8); i < len(fraction); i, place = i+1, place/10 {
		c := fraction[i]
		if c < '0' || c > '9' {
			return number{}, false
		}
		n.billionths += place * int64(c-'0')
		up = up || place == 0 && c != '0'
	}
	if up {
		n.billionths++
	}
	return n, true
}

// times returns n units, rounded up to the nanosecond. The unit divides a second.
func (n number) times(unit time.Duration) time.Duration {
	if n.whole > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	d, part := time.Duration(n.whole)*unit, int64(time.Second/unit)
	return d + min(time.Duration((n.billionths+part-1)/part), math.MaxInt64-d)
}
