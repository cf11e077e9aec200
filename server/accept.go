package server

import (
	"strconv"
	"strings"
)

// prefersText reports whether a client with these lines of Accept (RFC 9110, 12.5.1)
// prefers plain text to JSON, or accepts no JSON.
func prefersText(accept []string) bool {
	jsonRange, textRange := match{}, match{}
	given := false
	for _, line := range accept {
		for part := range strings.SplitSeq(line, ",") {
			media, params, _ := strings.Cut(part, ";")
			media = strings.ToLower(strings.TrimSpace(media))
			if media == "" {
				continue
			}
			given = true
			q, ok := quality(params)
			if !ok {
				continue
			}
			switch media {
			case "application/problem+json":
				jsonRange.take(4, q)
			case "application/json":
				jsonRange.take(3, q)
			case "application/*":
				jsonRange.take(2, q)
			case "text/plain":
				textRange.take(4, q)
			case "text/*":
				textRange.take(2, q)
			case "*/*":
				jsonRange.take(1, q)
				textRange.take(1, q)
			}
		}
	}
	return given && (jsonRange.q == 0 || textRange.q > jsonRange.q)
}

// A match is the most specific range that was found for a type: it alone says
// how much the client wants the type.
type match struct {
	specific int
	q        float64
}

func (m *match) take(specific int, q float64) {
	if specific > m.specific || specific == m.specific && q > m.q {
		*m = match{specific, q}
	}
}

// quality returns the weight among the parameters of a range: 1 when there is
// none, and false when it is not one.
func quality(params string) (float64, bool) {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return q, err == nil && q >= 0 && q <= 1
		}
	}
	return 1, true
}
