package ratelimit

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/text"
	"github.com/gresil/gresil/internal/validate"
)

// forms are the formats of the texts by algorithm. The last one is that of an aligned window.
//
//nolint:gochecknoglobals // a constant
var forms = [...]string{
	limits.FixedWindow: "%d/%s", limits.TokenBucket: "%d/%s burst %d", limits.SlidingWindow: "sliding_window %d/%s segments %d",
	limits.SlidingCounter: "sliding_counter %d/%s", limits.SlidingLog: "sliding_log %d/%s", aligned: "%d/%s aligned",
}

const aligned = limits.SlidingLog + 1

// String returns the text of the limit.
func (l Limit) String() string {
	var parts []string
	for _, s := range limits.Limit(l).Specs() {
		parts = append(parts, format(s, text.Duration(s.Period)))
	}
	return strings.Join(parts, " and ")
}

func format(s limits.Spec, period string) string {
	form := forms[s.Algorithm]
	if s.Aligned {
		form = forms[aligned]
	}
	return fmt.Sprintf(form, []any{s.Permits, period, s.Burst + int64(s.Segments)}[:strings.Count(form, "%")]...)
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
		s, ok := parse(part)
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
func parse(text string) (limits.Spec, bool) {
	for i, form := range forms {
		var period string
		var n int64
		s := limits.Spec{Algorithm: limits.Algorithm(i)}
		_, _ = fmt.Sscanf(text, form, []any{&s.Permits, &period, &n}[:strings.Count(form, "%")]...) // format below checks it
		switch i {
		case int(limits.TokenBucket):
			s.Burst = n
		case int(limits.SlidingWindow):
			s.Segments = int(n)
		case int(aligned):
			s.Algorithm, s.Aligned = limits.FixedWindow, true
		}
		var err error
		if s.Period, err = time.ParseDuration(period); err == nil && format(s, period) == text {
			return s, true
		}
	}
	return limits.Spec{}, false
}
