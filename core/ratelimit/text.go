package ratelimit

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/text"
	"github.com/gresil/gresil/internal/validate"
)

// String returns the limit in the form that [Limit.UnmarshalText] reads, as "100/1m".
func (l Limit) String() string {
	var parts []string
	for _, l := range l.All() {
		parts = append(parts, l.text())
	}
	return strings.Join(parts, " and ")
}

// text is String of one limit.
func (l Limit) text() string {
	if l == (Limit{}) {
		return "default"
	}
	s := fmt.Sprintf("%d/%s", l.Permits, text.Duration(l.Period))
	if l.Algorithm != AlgorithmFixedWindow && (l.Algorithm != AlgorithmTokenBucket || l.Burst == 0) {
		s = l.Algorithm.String() + " " + s
	}
	if l.Burst != 0 {
		s += fmt.Sprintf(" burst %d", l.Burst)
	}
	if l.Segments != 0 {
		s += fmt.Sprintf(" segments %d", l.Segments)
	}
	if l.Aligned {
		s += " aligned"
	}
	return s
}

// MarshalText returns the text of String. An invalid limit is an error.
func (l Limit) MarshalText() ([]byte, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	return []byte(l.String()), nil
}

// UnmarshalText reads a limit. Its text is the permits and the period, as "100/1m": a fixed
// window, or with a burst a token bucket. The name of another [Algorithm] comes first, and
// "and" joins several limits:
//
//	100/1m
//	1000/24h aligned
//	10/1s burst 20
//	sliding_window 100/1m segments 6
//	sliding_log 5/1h and 1000/24h
//
// The text "default" is the zero Limit. A field that is absent is zero. Any other text, and
// a limit that is not valid, is an error, and l stays as it is.
func (l *Limit) UnmarshalText(s []byte) error {
	var all []Limit
	words := strings.Join(strings.Fields(string(s)), " ")
	for part := range strings.SplitSeq(words, " and ") {
		one, ok := parseLimit(strings.Fields(part))
		if !ok {
			return validate.Bad(text.Field[Limit](), strconv.Quote(string(s)),
				`must be as "100/1m", "1000/24h aligned", "10/1s burst 20", "sliding_window 100/1m segments 6", or several of these joined by "and"`)
		}
		all = append(all, one)
	}
	read := all[0]
	for _, other := range all[1:] {
		read = read.And(other)
	}
	if err := read.Validate(); err != nil {
		return err
	}
	*l = read
	return nil
}

// parseLimit reads one limit. It does not validate it.
func parseLimit(words []string) (l Limit, ok bool) {
	if len(words) == 1 && words[0] == "default" {
		return Limit{}, true
	}
	named := len(words) > 1 && l.Algorithm.UnmarshalText([]byte(words[0])) == nil
	if named {
		words = words[1:]
	}
	if len(words) == 0 {
		return l, false
	}
	permits, period, _ := strings.Cut(words[0], "/")
	n, err := strconv.ParseInt(permits, 10, 64)
	d, err2 := time.ParseDuration(period)
	if err != nil || err2 != nil {
		return l, false
	}
	l.Permits, l.Period = n, FixedWindow(n, d).Period // never the zero Limit
	if len(words) == 3 && words[1] == "burst" && !named {
		l.Algorithm = AlgorithmTokenBucket
	}
	return l.withOption(words[1:])
}

// withOption reads the field after the period, if there is one.
func (l Limit) withOption(words []string) (_ Limit, ok bool) {
	var err error
	switch {
	case len(words) == 0:
		return l, true
	case len(words) == 1 && words[0] == "aligned":
		l.Aligned = true
		return l, true
	case len(words) == 2 && words[0] == "burst":
		l.Burst, err = strconv.ParseInt(words[1], 10, 64)
		return l, err == nil
	case len(words) == 2 && words[0] == "segments":
		l.Segments, err = strconv.Atoi(words[1])
		return l, err == nil
	}
	return l, false
}
