package gate

import (
	"maps"
	"math"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/fields"
)

// A Quota is what a response says about one limit. Until Reset is over, the calls of the key that are in flight cost no
// more than Remaining, though one can always be in flight. If it is 0, there is a hold, unless the response is a refusal
// with a Pause for this limit. So a Config.Classify must not return what is advice only: the default returns no Quota. An
// answer to a call from before the last answer can lower Remaining, but not raise it. With a Store, each process has its
// share of Remaining.
type Quota struct {
	Limit     string        // its name; if empty, all limits of the call; if the call is not under it, it is ignored
	Remaining int64         // units that are left; if negative, that is not known
	Reset     time.Duration // from now, at most Config.MaxHold; if zero, Remaining is ignored
	// Bucket is the vendor's own name for the key of the call in this limit. Keys with the same Bucket share slots and
	// holds from now on, under the name of the Bucket; calls that wait already keep the old key for one more attempt. Each
	// process learns it for itself. With a Store, the slots that the old key has used do not count for the Bucket. If empty,
	// the key stays as it is.
	Bucket string
}

// A Header says what a header of a vendor's responses means, for [Headers].
type Header struct {
	Name   string
	Format Format
	Limit  string // Quota.Limit; the headers of one limit are read together
}

// A Format is the meaning and the unit of a header.
type Format string

// The formats. Times in the past, and values that are out of range, say nothing.
const (
	Remaining     Format = "remaining"       // units left, "99" or "99.0"; negative is unknown
	UsedOf        Format = "used_of"         // used and limit, "32/40"
	ResetIn       Format = "reset_in"        // seconds left, "41" or "1.5"
	ResetInMillis Format = "reset_in_millis" // milliseconds left
	ResetDuration Format = "reset_duration"  // a Go or protobuf duration, "6m0s" or "57.238s", or seconds without a unit
	ResetAt       Format = "reset_at"        // Unix time in seconds, "1795608300" or "1795608300.5"
	ResetAtMillis Format = "reset_at_millis" // Unix time in milliseconds
	ResetTime     Format = "reset_time"      // RFC 3339, ISO 8601 with a zone, or an HTTP date
)

// Headers returns a Config.Classify that reads these headers in addition to what [Classify] reads, into Signal.Quotas. If
// nothing says how long the pause of a refusal is, it is the longest Reset of a limit of which nothing remains. A header
// that is missing or cannot be read says nothing, nor does a Reset without a Remaining, or a response from a cache (Age).
// [Classify] does not guess what a RateLimit or X-RateLimit header means that is one of these.
//
// Times are relative to the Date of the response if it has one, so that a wrong clock does no harm.
func Headers(h ...Header) func(resp *http.Response, err error) Signal {
	table := slices.Clone(h)
	for i := range table {
		table[i].Name = http.CanonicalHeaderKey(table[i].Name)
	}
	return func(resp *http.Response, err error) Signal {
		if resp == nil || err != nil {
			return Classify(resp, err)
		}
		rest := *resp
		rest.Header = maps.Clone(resp.Header)
		for _, of := range table {
			if strings.Contains(of.Name, "Ratelimit") {
				delete(rest.Header, of.Name)
			}
		}
		s := Classify(&rest, nil)
		told := s.Pause > 0
		for _, q := range quotas(table, resp.Header) {
			if s.Quotas = append(s.Quotas, q); s.Limited && !told && q.Remaining == 0 {
				s.Pause = max(s.Pause, q.Reset)
			}
		}
		return s
	}
}

// quotas reads the headers of each limit. Of several values, the fewest units and the latest time count.
func quotas(table []Header, h http.Header) (all []Quota) {
	for _, of := range table {
		i := slices.IndexFunc(all, func(q Quota) bool { return q.Limit == of.Limit })
		if i < 0 {
			i, all = len(all), append(all, Quota{Limit: of.Limit, Remaining: -1})
		}
		for _, line := range h[of.Name] {
			left, reset := of.Format.read(textproto.TrimString(line), fields.Now(h))
			if q := &all[i]; q.Remaining < 0 || left >= 0 && left < q.Remaining {
				q.Remaining = left
			}
			all[i].Reset = max(all[i].Reset, reset)
		}
	}
	return slices.DeleteFunc(all, func(q Quota) bool { return q.Remaining < 0 || fields.Cached(h) })
}

// read reads how many units are left, or -1; and how long until the reset, which can be past.
func (f Format) read(s string, now time.Time) (left int64, reset time.Duration) {
	n, ok := fields.ParseNumber(s)
	if seconds := strings.TrimSuffix(s, "s"); f == ResetDuration {
		n, ok = fields.ParseNumber(seconds) // in full, where package time cuts it to the nanosecond
	}
	switch {
	case f == ResetTime:
		if at, ok := fields.ParseTime(s); ok {
			reset = at.Sub(now)
		}
	case f == UsedOf:
		used, limit, _ := strings.Cut(s, "/")
		n, ok := fields.ParseNumber(textproto.TrimString(used))
		of, is := fields.ParseNumber(textproto.TrimString(limit))
		if ok && is && of.Whole > 0 {
			return max(0, of.Whole-n.Whole-min(1, n.Billionths)), 0
		}
	case !ok && f == ResetDuration:
		reset, _ = time.ParseDuration(s)
	case !ok:
	case f == Remaining:
		return n.Whole, 0
	case f == ResetIn, f == ResetDuration:
		reset = n.Times(time.Second)
	case f == ResetInMillis:
		reset = n.Times(time.Millisecond)
	case f == ResetAt:
		reset = n.Unix(time.Second).Sub(now)
	case f == ResetAtMillis:
		reset = n.Unix(time.Millisecond).Sub(now)
	}
	if reset == math.MaxInt64 { // out of range
		reset = 0
	}
	return -1, reset
}
