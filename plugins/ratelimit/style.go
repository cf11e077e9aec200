package ratelimit

import (
	"fmt"
	"strings"

	"github.com/gresil/gresil/internal/validate"
)

// HeaderStyle selects the fields from which a client learns how much is left. Styles can
// be combined, as in HeaderDraft10 | HeaderXRateLimit.
//
// With nested limiters the fields of HeaderDraft10, which are lists, have a line of each.
// All others, and X-Rate-Limited, are about one limit: the one that refused, otherwise
// the one with the fewest permits left, and of those the one that has its next permit
// last. The lines that a handler adds to a list, as a proxy does that copies the fields of
// its upstream, stay, except those in the form of draft 07, with which the field could not
// be parsed. Values that a handler adds to any other field are dropped. The limits in a
// list differ by their names alone, so give the plugins of different services different
// ones. A field that a hook or a handler deletes stays deleted, unless the handler has
// sent an informational response: then all fields are set again.
type HeaderStyle uint8

const (
	// HeaderDraft10 is RateLimit-Policy and RateLimit as in
	// draft-ietf-httpapi-ratelimit-headers-10:
	//
	//	RateLimit-Policy: "api";q=100;w=60
	//	RateLimit: "api";r=99;t=50
	//
	// q is the capacity of the limit and w the seconds in which it fills, absent if
	// that is below one second; r is the number of permits left, and t the seconds until
	// there is one more, absent if the key is full. Of limits that And has joined the
	// policy names all, each by its period, as in "api-1s" and "api-1h", and RateLimit
	// has the one that counts. Each layer adds an item to both. For a key that has a limit
	// of its own (see SetKeyLimit in core/ratelimit), w is absent.
	HeaderDraft10 HeaderStyle = 1 << iota
	// HeaderXRateLimit is X-RateLimit-Limit, X-RateLimit-Remaining and
	// X-RateLimit-Reset: the Unix time, in seconds, at which the key is full.
	HeaderXRateLimit
	// HeaderDraft03 is RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, as in
	// the drafts 03 to 06, and as express and others send: the reset is the number of
	// seconds until there is one permit more.
	HeaderDraft03

	headerStyles // the next bit
)

// String names the styles in the order of the constants, as in "draft10+x" or "none".
func (s HeaderStyle) String() string {
	var names []string
	for i, name := range []string{"draft10", "x", "draft03"} {
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

// MarshalText returns the text of String. A value without a name is an error.
func (s HeaderStyle) MarshalText() ([]byte, error) { return validate.MarshalText(s, headerStyles-1) }

// UnmarshalText reads the text of MarshalText. Any other text is an error.
func (s *HeaderStyle) UnmarshalText(text []byte) error {
	return validate.UnmarshalText(s, headerStyles-1, text)
}
