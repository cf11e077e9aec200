// Package fields reads the numbers and dates of header fields.
package fields

import (
	"math"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// Now returns the time at which the server sent its response, by its own clock if there is a Date.
func Now(h http.Header) time.Time {
	if date, ok := ParseDate(textproto.TrimString(h.Get("Date"))); ok {
		return date
	}
	return time.Now()
}

// Cached reports whether a response comes from a cache, so that its fields are from another call.
func Cached(h http.Header) bool {
	age, ok := ParseNumber(textproto.TrimString(h.Get("Age")))
	return ok && age != (Number{})
}

// ParseDate reads an HTTP date. Zone names other than GMT and UTC are refused: package time takes unknown ones for UTC.
// If the program's local zone is named GMT, package time takes GMT for it, so the zone of the result does not tell what
// was written.
func ParseDate(s string) (time.Time, bool) {
	if day, ok := strings.CutSuffix(s, " UTC"); ok {
		s = day + " GMT"
	}
	if at, err := http.ParseTime(s); err == nil {
		return at, strings.HasSuffix(s, " GMT") || !strings.Contains(s, ",") // the form without a zone
	}
	at, err := time.Parse(time.RFC1123Z, s)
	return at, err == nil
}

// ParseTime reads the forms of ISO 8601 that servers use, with a zone, and HTTP dates.
func ParseTime(s string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04Z0700"} {
		if at, err := time.Parse(layout, s); err == nil {
			return at, true
		}
	}
	return ParseDate(s)
}

// A Number is a decimal that is not negative.
type Number struct {
	Whole      int64
	Billionths int64 // rounded up, at most 1e9
}

// ParseNumber reads any number of digits, with or without a fraction. If ok is false, n is 0.
func ParseNumber(s string) (n Number, ok bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	if digits := whole + fraction; digits == "" || strings.Trim(digits, "0123456789") != "" {
		return Number{}, false
	}
	n.Whole, _ = strconv.ParseInt("0"+whole, 10, 64) // the largest int64 if there are more digits
	fraction = strings.TrimRight(fraction, "0")
	n.Billionths, _ = strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	if len(fraction) > 9 {
		n.Billionths++
	}
	return n, true
}

// Times returns n units, rounded up to the nanosecond, or the longest duration. The unit must divide a second.
func (n Number) Times(unit time.Duration) time.Duration {
	if n.Whole > math.MaxInt64/int64(unit) {
		return math.MaxInt64
	}
	d, part := time.Duration(n.Whole)*unit, int64(time.Second/unit)
	return d + min(time.Duration((n.Billionths+part-1)/part), math.MaxInt64-d)
}

// Unix returns the Unix time of n units. The unit must divide a second.
func (n Number) Unix(unit time.Duration) time.Time {
	part := int64(time.Second / unit)
	rest := Number{n.Whole % part, n.Billionths}
	return time.Unix(n.Whole/part, int64(rest.Times(unit)))
}
