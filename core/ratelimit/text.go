package ratelimit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/text"
	"github.com/gresil/gresil/internal/validate"
)

// algorithms are the first words of a text; the first two have other marks.
//
//nolint:gochecknoglobals // a constant
var algorithms = [...]string{
	limits.SlidingWindow: "sliding_window", limits.SlidingCounter: "sliding_counter", limits.SlidingLog: "sliding_log",
}

// String returns the text of the limit.
func (l Limit) String() string {
	var parts []string
	for _, s := range limits.Limit(l).Specs() {
		part := fmt.Sprintf("%d/%s", s.Permits, text.Duration(s.Period))
		switch {
		case s.Algorithm == limits.TokenBucket:
			part += fmt.Sprintf(" burst %d", s.Burst)
		case s.Algorithm == limits.SlidingWindow:
			part += fmt.Sprintf(" segments %d", s.Segments)
		case s.Aligned:
			part += " aligned"
		}
		parts = append(parts, strings.TrimSpace(algorithms[s.Algorithm]+" "+part))
	}
	return strings.Join(parts, " and ")
}

// MarshalText returns the text of the limit. An invalid limit is an error.
func (l Limit) MarshalText() ([]byte, error) {
	if err := l.check("ratelimit.Limit"); err != nil {
		return nil, err
	}
	return []byte(l.String()), nil
}

// UnmarshalText reads the text of a limit. Any other text is an error, and l stays as it is.
func (l *Limit) UnmarshalText(text []byte) error {
	var read Limit
	for i, part := range strings.Split(strings.Join(strings.Fields(string(text)), " "), " and ") {
		s, ok := parse(strings.Fields(part))
		switch {
		case !ok:
			return validate.Bad("ratelimit.Limit", strconv.Quote(string(text)),
				`must be as "100/1m", "1000/24h aligned", "10/1s burst 20", "sliding_window 100/1m segments 6", `+
					`or several of these joined by "and"`)
		case i == 0:
			read = of(s)
		default:
			read = read.And(of(s))
		}
	}
	if err := read.check("ratelimit.Limit"); err != nil {
		return err
	}
	*l = read
	return nil
}

// check returns the error of a limit that cannot be used, or nil.
func (l Limit) check(field string) error {
	if reason := limits.Limit(l).Refuse(); reason != "" {
		return validate.Bad(field, l.String(), reason)
	}
	return nil
}

// parse reads one limit.
func parse(words []string) (s limits.Spec, ok bool) {
	if len(words) > 1 {
		if i := slices.Index(algorithms[:], words[0]); i >= 0 {
			s.Algorithm, words = limits.Algorithm(i), words[1:]
		}
	}
	if len(words) == 0 {
		return s, false
	}
	permits, period, _ := strings.Cut(words[0], "/")
	var err, err2, err3 error
	s.Permits, err = strconv.ParseInt(permits, 10, 64)
	s.Period, err2 = time.ParseDuration(period)
	switch option := words[1:]; {
	case len(option) == 0:
		ok = s.Algorithm != limits.SlidingWindow
	case len(option) == 1:
		ok = option[0] == "aligned" && s.Algorithm == limits.FixedWindow
		s.Aligned = ok
	case len(option) == 2 && option[0] == "burst" && s.Algorithm == limits.FixedWindow:
		s.Algorithm, ok = limits.TokenBucket, true
		s.Burst, err3 = strconv.ParseInt(option[1], 10, 64)
	case len(option) == 2 && option[0] == "segments" && s.Algorithm == limits.SlidingWindow:
		s.Segments, err3 = strconv.Atoi(option[1])
		ok = true
	}
	return s, ok && err == nil && err2 == nil && err3 == nil
}
