package ratelimit

import (
	"fmt"
	"strings"
)

// HeaderStyle says which headers tell a client how it stands. Styles can be
// combined, as in HeaderDraft10 | HeaderXRateLimit; all that are sent tell the same.
//
// Where limiters are one inside of the other, the fields that are lists have a line
// of each. All others, and X-Rate-Limited, are about one limit: that which refused,
// else that which has least left. What a handler adds to a list, as a proxy does
// that copies the fields of its upstream, stays beside, but for lines in the form of
// the other draft, with which the field could not be parsed; what it adds to any other
// does not. The limits in a list are told apart by their names alone, so give the
// plugins of different services different ones. What a hook or a handler deletes stays
// away, unless it has sent an informational response: then all is set again.
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
	// one more, left out if nothing is missing. Of limits that And has joined the
	// policy names all, each by its period, as in "api-1s" and "api-1h", and
	// RateLimit has the one that counts. Each layer adds an item to both. For a
	// Custom limit, and for a key that has a limit of its own (see Override in
	// core/ratelimit), w is left out.
	HeaderDraft10 HeaderStyle = 1 << iota
	// HeaderXRateLimit is X-RateLimit-Limit, X-RateLimit-Remaining and
	// X-RateLimit-Reset, which is the Unix time, in seconds, at which nothing will
	// be missing any more.
	HeaderXRateLimit
	// HeaderXRateLimitDelta is the same with X-RateLimit-Reset in seconds from now.
	// It cannot be combined with HeaderXRateLimit.
	HeaderXRateLimitDelta
	// HeaderDraft07 is RateLimit-Policy and RateLimit as in draft 07:
	//
	//	RateLimit-Policy: 100;w=60
	//	RateLimit: limit=100, remaining=99, reset=50
	//
	// The policy is a list of all limits; RateLimit is about one. Its reset is the
	// seconds until there is one more. It cannot be combined with HeaderDraft10.
	HeaderDraft07
	// HeaderDraft03 is RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, as
	// in the drafts up to 06, with the numbers of HeaderDraft07.
	HeaderDraft03

	headerStyles // the next bit
)

// String names the styles, as in "draft10+x".
func (s HeaderStyle) String() string {
	var names []string
	for i, name := range []string{"draft10", "x", "x-delta", "draft07", "draft03"} {
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
	const resets, drafts = HeaderXRateLimit | HeaderXRateLimitDelta, HeaderDraft10 | HeaderDraft07
	switch {
	case s >= headerStyles:
		return "must be made of HeaderDraft10, HeaderDraft07, HeaderDraft03, HeaderXRateLimit and HeaderXRateLimitDelta"
	case s&resets == resets:
		return "must not have both forms of X-RateLimit-Reset"
	case s&drafts == drafts:
		return "must not have both HeaderDraft10 and HeaderDraft07, which are two forms of the same fields"
	}
	return ""
}
