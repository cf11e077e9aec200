package client

import (
	"cmp"
	"net/http"
	"net/textproto"
	"strconv"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/gresil/gresil/internal/fields"
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
	n, _ := fields.ParseNumber(s)
	return n.Times(time.Millisecond)
}

func readRetryAfter(s string, h http.Header) time.Duration {
	if n, ok := fields.ParseNumber(s); ok {
		return n.Times(time.Second)
	}
	at, ok := fields.ParseDate(s)
	if !ok {
		return 0
	}
	return at.Add(time.Second).Sub(fields.Now(h))
}

// readLimits returns the wait of the rate-limit fields, for limits of which nothing remains.
func readLimits(h http.Header) time.Duration {
	field, draft, x := h["Ratelimit"], h["Ratelimit-Reset"], h["X-Ratelimit-Reset"]
	if len(field)+len(draft)+len(x) == 0 {
		return 0
	}
	if fields.Cached(h) {
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
		left, ok := fields.ParseNumber(textproto.TrimString(line))
		if ok && left == (fields.Number{}) {
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
	n, _ := fields.ParseNumber(s)
	switch {
	case n.Whole < firstUnix:
		return n.Times(time.Second)
	case n.Whole < firstUnixMilli:
		return n.Unix(time.Second).Sub(fields.Now(h))
	}
	return n.Unix(time.Millisecond).Sub(fields.Now(h))
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
	} else if policy, err := httpsfv.UnmarshalDictionary(lines); err == nil { // draft 07
		remaining, _ := policy.Get("remaining")
		seconds, _ := policy.Get("reset")
		wait = usedUp(remaining, seconds)
	}
	return wait
}

// usedUp returns the wait of a limit that is used up, or 0 if something remains.
func usedUp(remaining, seconds any) time.Duration {
	if left, ok := numberOf(remaining); !ok || left != (fields.Number{}) {
		return 0
	}
	n, _ := numberOf(seconds)
	return n.Times(time.Second)
}

// numberOf returns the number of an item of a structured field.
func numberOf(item any) (fields.Number, bool) {
	if i, ok := item.(httpsfv.Item); ok {
		item = i.Value
	}
	switch v := item.(type) {
	case int64:
		return fields.ParseNumber(strconv.FormatInt(v, 10))
	case float64:
		return fields.ParseNumber(strconv.FormatFloat(v, 'f', -1, 64))
	}
	return fields.Number{}, false
}
