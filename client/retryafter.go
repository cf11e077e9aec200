package client

import (
	"cmp"
	"math"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// RetryAfter returns how long the client should wait from now on: call it when the response arrives. It returns false
// if the response does not say so. Of these, the first that asks for a wait counts:
//
//   - retry-after-ms of a status from 400 on, in milliseconds
//   - Retry-After of a status from 400 on, in seconds or as an HTTP date, which can have UTC or +0000 instead of GMT;
//     of several lines the longest wait
//   - RateLimit, a list as in draft 10 or a dictionary as in draft 07; of several policies the
//     longest wait among those with nothing left
//   - RateLimit-Remaining and RateLimit-Reset, if nothing remains
//   - X-RateLimit-Remaining and X-RateLimit-Reset, if nothing remains
//
// All but the first two count with any status, unless the response comes from a cache (Age). A reset below 10⁹ is in
// seconds from now; from 10¹² on, it is a Unix time in milliseconds; otherwise a Unix time in seconds. If a vendor
// means something else by such a field, use a function of your own.
//
// Servers cut a date to the second, so it means the end of that second. Dates and Unix times are taken relative to the
// Date of the response, so that a wrong clock does no harm. The Date is cut too, so the wait can be up to two seconds
// too long. Numbers can have decimals, and are rounded up to the nanosecond; a number that is too large means the
// longest duration. A field that cannot be read, 0, a negative number and a past time are ignored: a limited call is
// never repeated at once. The result is not clamped: it can be a century.
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

// longest returns the longest wait of the lines of one field, or 0 if there is none.
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

// readLimits returns the wait of the rate-limit fields, for limits of which nothing remains.
func readLimits(h http.Header) time.Duration {
	field, draft, x := h["Ratelimit"], h["Ratelimit-Reset"], h["X-Ratelimit-Reset"]
	if len(field)+len(draft)+len(x) == 0 {
		return 0
	}
	if age, ok := parseNumber(textproto.TrimString(h.Get("Age"))); ok && age != (number{}) {
		return 0
	}
	return cmp.Or(readStructured(field), readPair(h["Ratelimit-Remaining"], draft, h), readPair(h["X-Ratelimit-Remaining"], x, h))
}

// readPair reads the two fields of a limit. Each server on the way may have added a line to both.
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

// From firstUnix on, a reset is a Unix time in seconds; from firstUnixMilli on, in milliseconds.
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
func readStructured(lines []string) (wait time.Duration) {
	if list, err := httpsfv.UnmarshalList(lines); err == nil { // draft 10
		for _, member := range list {
			if policy, ok := member.(httpsfv.Item); ok {
				remaining, _ := policy.Params.Get("r")
				seconds, _ := policy.Params.Get("t")
				wait = max(wait, usedUp(remaining, seconds))
			}
		}
	} else if fields, err := httpsfv.UnmarshalDictionary(lines); err == nil { // draft 07
		remaining, _ := fields.Get("remaining")
		seconds, _ := fields.Get("reset")
		wait = usedUp(remaining, seconds)
	}
	return wait
}

// usedUp returns the wait of a limit that is used up, or 0 if something remains.
func usedUp(remaining, seconds any) time.Duration {
	if left, ok := numberOf(remaining); !ok || left != (number{}) {
		return 0
	}
	n, _ := numberOf(seconds)
	return n.times(time.Second)
}

// numberOf returns the number of an item of a structured field.
func numberOf(item any) (number, bool) {
	if i, ok := item.(httpsfv.Item); ok {
		item = i.Value
	}
	switch v := item.(type) {
	case int64:
		return parseNumber(strconv.FormatInt(v, 10))
	case float64:
		return parseNumber(strconv.FormatFloat(v, 'f', -1, 64))
	}
	return number{}, false
}

// serverNow returns the time at which the server sent its response, by its own clock if there is a Date.
func serverNow(h http.Header) time.Time {
	if date, ok := parseDate(textproto.TrimString(h.Get("Date"))); ok {
		return date
	}
	return time.Now()
}

// parseDate reads an HTTP date. Zone names other than GMT and UTC are refused: package time takes unknown ones for UTC.
// If the program's local zone is named GMT, package time takes GMT for it, so the zone of the result does not tell what
// was written.
func parseDate(s string) (time.Time, bool) {
	if day, ok := strings.CutSuffix(s, " UTC"); ok {
		s = day + " GMT"
	}
	if at, err := http.ParseTime(s); err == nil {
		return at, strings.HasSuffix(s, " GMT") || !strings.Contains(s, ",") // the form without a zone
	}
	at, err := time.Parse(time.RFC1123Z, s)
	return at, err == nil
}

// A number is a decimal that is not negative.
type number struct {
	whole      int64
	billionths int64 // rounded up, at most 1e9
}

// parseNumber reads any number of digits, with or without a fraction. If ok is false, n is 0.
func parseNumber(s string) (n number, ok bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	if digits := whole + fraction; digits == "" || strings.Trim(digits, "0123456789") != "" {
		return number{}, false
	}
	n.whole, _ = strconv.ParseInt("0"+whole, 10, 64) // the largest int64 if there are more digits
	fraction = strings.TrimRight(fraction, "0")
	n.billionths, _ = strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	if len(fraction) > 9 {
		n.billionths++
	}
	return n, true
}

// times returns n units, rounded up to the nanosecond. The unit must divide a second.
func (n number) times(unit time.Duration) time.Duration {
	if n.whole > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	d, part := time.Duration(n.whole)*unit, int64(time.Second/unit)
	return d + min(time.Duration((n.billionths+part-1)/part), math.MaxInt64-d)
}
