package ratelimit

import (
	"math"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/client"
)

// DefaultFeedback returns how long the server asks the client to wait: from now, which is when resp
// came, until it takes requests again. It is 0 when the response does not ask. It is the
// Feedback of a [ClientConfig] that has none, where a limit of a part cannot hold a whole
// host: with a Key of the user's own for all responses, otherwise for 429 and 503.
//
// The first of these that is there and can be read counts:
//
//   - Retry-After of a 429 or 503, as [client.RetryAfter] reads it
//   - RateLimit, a list as in draft 10 or a dictionary as in draft 07; of several
//     policies the longest wait among those with nothing left
//   - RateLimit-Remaining and RateLimit-Reset
//   - X-RateLimit-Remaining and X-RateLimit-Reset
//
// All but the first count with any status, and ask to wait if nothing remains: also
// with a 200, after which there would be a 429, and with the 403 that GitHub sends for it.
// DefaultFeedback does not know which resource or partition (pk) a field is about: the
// Key must distinguish these. The fields do not count when the response
// comes out of a cache (Age). A reset is in seconds from now; a number that is too
// large for that is a Unix time, in seconds or a smaller unit, and taken relative to
// the Date header where that can be read, so that a wrong clock does no harm.
//
// Malformed fields are ignored: a sign, a fraction, a list with a comma at its end. The
// result is the wait of the server, which can be a century: MaxHold of the ClientConfig
// limits it.
func DefaultFeedback(resp *http.Response, now time.Time) time.Duration {
	if resp == nil {
		return 0
	}
	if throttled(resp) {
		if d, ok := client.RetryAfter(resp, now); ok {
			return d
		}
	}
	if age, ok := number(resp.Header, "Age"); ok && age > 0 {
		return 0
	}
	if d, ok := askedByField(resp.Header[limitField]); ok {
		return d
	}
	for _, t := range slices.Backward(allTrios[:]) {
		if d, ok := askedByTrio(resp.Header, t, now); ok {
			return d
		}
	}
	return 0
}

// throttled reports whether a server sends such a response to hold its clients back.
func throttled(resp *http.Response) bool {
	return resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable
}

// askedByTrio reads two fields about one limit. Several servers on the way may have
// added a line each, to both.
func askedByTrio(h http.Header, t *trio, now time.Time) (longest time.Duration, ok bool) {
	lefts, resets := h[t.names[remaining]], h[t.names[reset]]
	if len(lefts) != len(resets) {
		return 0, false
	}
	for i := range lefts {
		left, err := strconv.ParseUint(textproto.TrimString(lefts[i]), 10, 64)
		d, readable := parseReset(textproto.TrimString(resets[i]), h, now)
		if err != nil || !readable {
			continue
		}
		if ok = true; left == 0 {
			longest = max(longest, d)
		}
	}
	return longest, ok
}

// Numbers from here on are no time to wait: 31 years. In seconds they are a Unix time
// before the year 5138, and above that one in a smaller unit.
const (
	firstUnix = 1e9
	lastUnix  = 1e11
)

// parseReset reads seconds from now, or a Unix time.
func parseReset(s string, h http.Header, now time.Time) (time.Duration, bool) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, false
	}
	if n < firstUnix {
		return time.Duration(n) * time.Second, true
	}
	per := uint64(1) // of n in a second
	for n/per >= lastUnix {
		per *= 1000
	}
	at := time.Unix(int64(n/per), int64(n%per*(1e9/min(per, 1e9))))
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now)), true
}

// askedByField reads RateLimit, a structured field.
func askedByField(lines []string) (longest time.Duration, ok bool) {
	remaining, reset := absent, absent // of a dictionary
	valid := sfMembers(strings.Join(lines, ","), func(m sfMember) {
		switch {
		case m.name == "remaining":
			remaining = m.value
		case m.name == "reset":
			reset = m.value
		case m.name == "" && m.r >= 0 && m.t >= 0:
			if ok = true; m.r == 0 {
				longest = max(longest, ofSeconds(m.t))
			}
		}
	})
	if !valid {
		return 0, false
	}
	if remaining >= 0 && reset >= 0 {
		if ok = true; remaining == 0 {
			longest = ofSeconds(reset)
		}
	}
	return longest, ok
}

func ofSeconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Second))) * time.Second
}
