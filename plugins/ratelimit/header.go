package ratelimit

import (
	"fmt"
	"math/bits"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// HeaderStyle says which headers tell a client how it stands. Styles can be
// combined, as in HeaderDraft10 | HeaderXRateLimit.
type HeaderStyle uint8

const (
	// HeaderDraft10 is RateLimit-Policy and RateLimit as in
	// draft-ietf-httpapi-ratelimit-headers-10:
	//
	//	RateLimit-Policy: "api";q=100;w=60
	//	RateLimit: "api";r=99;t=50
	//
	// q is the capacity of the limit and w the seconds that it takes to fill, left
	// out if that is below one; r is what is left, and t the seconds until there is
	// one more, left out if nothing is missing. Limits one inside of the other add
	// a line each.
	HeaderDraft10 HeaderStyle = 1 << iota
	// HeaderXRateLimit is X-RateLimit-Limit, X-RateLimit-Remaining and
	// X-RateLimit-Reset, which is the Unix time, in seconds, at which nothing will
	// be missing any more. Of limits one inside of the other it tells about the one
	// that has least left, or that refused.
	HeaderXRateLimit
	// HeaderXRateLimitDelta is the same with X-RateLimit-Reset in seconds from now.
	// It cannot be combined with HeaderXRateLimit.
	HeaderXRateLimitDelta

	headerStyles // the next bit
)

// String names the styles, as in "draft10+x".
func (s HeaderStyle) String() string {
	var names []string
	for i, name := range []string{"draft10", "x", "x-delta"} {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	switch {
	case s >= headerStyles:
		return fmt.Sprintf("HeaderStyle(%d)", uint8(s))
	case names == nil:
		return "none"
	}
	return strings.Join(names, "+")
}

// problem says what is wrong with the style.
func (s HeaderStyle) problem() string {
	const both = HeaderXRateLimit | HeaderXRateLimitDelta
	switch {
	case s >= headerStyles:
		return "must be made of HeaderDraft10, HeaderXRateLimit and HeaderXRateLimitDelta"
	case s&both == both:
		return "must not have both forms of X-RateLimit-Reset"
	}
	return ""
}

// A draft names the fields and the parameters of one draft. Each draft so far
// has changed some.
type draft struct {
	policyField, limitField             string // canonical
	quota, window, remaining, untilMore string
}

func draft10() draft {
	return draft{
		policyField: http.CanonicalHeaderKey("RateLimit-Policy"), limitField: http.CanonicalHeaderKey("RateLimit"),
		quota: ";q=", window: ";w=", remaining: ";r=", untilMore: ";t=",
	}
}

// draftText is what of a draft's fields can be said before the request.
type draftText struct {
	draft
	limit  Limit
	item   string // the name of the limit, as a structured string (RFC 9651)
	start  string // of RateLimit, up to the number that remains
	policy string // RateLimit-Policy
	room   int    // that all values but the policy take at most
}

// maxDigits is what a number takes: one below MaxPermits, or a time in seconds.
const maxDigits = 12

func newDraftText(d draft, name string, limit Limit) draftText {
	t := draftText{draft: d, limit: limit, item: quote(name)}
	t.start = t.item + d.remaining
	t.policy = string(t.appendPolicy(nil, limit))
	t.room = len(t.start) + len(d.untilMore) + 5*maxDigits
	return t
}

// appendPolicy appends what a limit is in general.
func (t *draftText) appendPolicy(b []byte, limit Limit) []byte {
	b = strconv.AppendInt(append(append(b, t.item...), t.quota...), limit.Capacity(), 10)
	if fill := fillTime(limit); fill >= time.Second {
		b = strconv.AppendInt(append(b, t.window...), seconds(fill), 10)
	}
	return b
}

// appendLimit appends how a key stands.
func (t *draftText) appendLimit(b []byte, r Result) []byte {
	b = strconv.AppendInt(append(b, t.start...), r.Remaining, 10)
	if r.NextAfter > 0 {
		b = strconv.AppendInt(append(b, t.untilMore...), seconds(r.NextAfter), 10)
	}
	return b
}

// quote writes s as a structured string. What that cannot hold is written as in
// a URL.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// fillTime is how long an empty key takes to fill, rounded up.
func fillTime(l Limit) time.Duration {
	// A valid limit fills within years, so this does not overflow.
	hi, lo := bits.Mul64(uint64(l.Capacity()), uint64(l.Period))
	fill, rest := bits.Div64(hi, lo, uint64(l.Permits))
	return time.Duration(fill + min(1, rest))
}

// seconds rounds up.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// A header holds the fields about one request, with all their text in one place.
type header struct {
	values [6]string
	text   [103]byte // enough for most
	n      uint8     // values in use
}

// set sets a field to one value. It can be appended to without harm.
func (x *header) set(h http.Header, field, value string) {
	line := x.values[x.n : x.n+1 : x.n+1]
	x.n++
	line[0] = value
	h[field] = line
}

// add adds a line to a field that is a list.
func (x *header) add(h http.Header, field, value string) {
	if lines := h[field]; len(lines) > 0 {
		h[field] = append(lines, value)
		return
	}
	x.set(h, field, value)
}

// write sets the fields of a style.
func (x *header) write(h http.Header, style HeaderStyle, t *draftText, limit Limit, r Result) {
	switch {
	case !r.Allowed:
		x.set(h, rateLimited, "true")
	case len(h[rateLimited]) == 0:
		x.set(h, rateLimited, "false")
	}
	if style == 0 {
		return
	}
	text, need := x.text[:0], t.room
	if limit != t.limit { // a tier
		need += len(t.policy) + 2*maxDigits
	}
	if need > len(x.text) {
		text = make([]byte, 0, need)
	}
	if style&HeaderDraft10 != 0 {
		policy := t.policy
		if limit != t.limit {
			text = t.appendPolicy(text, limit)
			policy = since(text, 0)
		}
		x.add(h, t.policyField, policy)
		start := len(text)
		text = t.appendLimit(text, r)
		x.add(h, t.limitField, since(text, start))
	}
	if style&(HeaderXRateLimit|HeaderXRateLimitDelta) != 0 && (!r.Allowed || r.Remaining < left(h)) {
		reset := seconds(r.FullAfter)
		if style&HeaderXRateLimit != 0 {
			now := time.Now()
			reset = now.Unix() + seconds(time.Duration(now.Nanosecond())+r.FullAfter)
		}
		for i, n := range [...]int64{r.Limit, r.Remaining, reset} {
			start := len(text)
			text = strconv.AppendInt(text, n, 10)
			x.set(h, [...]string{xLimit, xRemaining, xReset}[i], since(text, start))
		}
	}
}

// since makes a value of what was written from start on. Text is only ever
// appended to.
func since(text []byte, start int) string {
	return unsafe.String(unsafe.SliceData(text[start:]), len(text)-start)
}

// Canonical, so that they are assigned without looking.
const (
	rateLimited = "X-Rate-Limited"
	xLimit      = "X-Ratelimit-Limit"
	xRemaining  = "X-Ratelimit-Remaining"
	xReset      = "X-Ratelimit-Reset"
)

// left is what a limiter further out says to be left.
func left(h http.Header) int64 {
	if lines := h[xRemaining]; len(lines) > 0 {
		if n, err := strconv.ParseInt(lines[0], 10, 64); err == nil {
			return n
		}
	}
	return 1<<63 - 1
}
