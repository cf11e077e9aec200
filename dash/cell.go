package dash

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A cell is one value, as text for the page and as a value for JSON.
type cell struct {
	Text  string
	Title string   // if it says more than Text
	Class string   // "number", "ok", "warn" or "bad"
	Lines []string // details, for a list that can be opened
	value any      // nil if it is not known
	by    any      // the value for sorting; if nil, that is value
}

const (
	maxText    = 200     // characters of a text
	maxFailure = 2 << 10 // bytes of the text of an error
	maxLines   = 100     // lines of details
	unknown    = "–"
)

// A count is a number that JSON has as a text if a float64 cannot hold it.
type count uint64

func (c count) String() string { return strconv.FormatUint(uint64(c), 10) }

func (c count) MarshalJSON() ([]byte, error) {
	if c > 1<<53-1 {
		return json.Marshal(c.String())
	}
	return []byte(c.String()), nil
}

// A span is a duration that JSON has in seconds.
type span time.Duration

func (s span) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

func number[N ~int | ~int64 | ~uint64](n N) cell {
	c := count(max(0, n))
	return cell{Text: c.String(), Class: "number", value: c}
}

// alarm is a number that is bad unless it is 0.
func alarm[N ~int | ~int64 | ~uint64](n N) cell {
	c := number(n)
	if n != 0 {
		c.Class = "number bad"
	}
	return c
}

// of is a number and the most it can be.
func of[N ~int | ~int64 | ~uint64](n, most N) cell {
	c := number(n)
	c.Text += " of " + number(most).Text
	return c
}

func text(s string) cell {
	all := visible(s)
	c := cell{Text: short(all), value: s}
	if c.Text != all {
		c.Title = all
	}
	if s == "" {
		c.Text = "(empty)"
	}
	return c
}

// word is a state, whose class says how good it is.
func word(s, class string) cell {
	return cell{Text: strings.ReplaceAll(s, "_", " "), Class: class, value: s}
}

func none() cell { return cell{Text: unknown} }

// lasting is a duration.
func lasting(d time.Duration) cell {
	return cell{Text: rough(d), Title: d.String(), Class: "number", value: span(d)}
}

// instant is a time, relative to now.
func instant(t, now time.Time) cell {
	if t.IsZero() {
		return none()
	}
	return cell{Text: relative(t, now), Title: stamp(t), Class: "number", value: t.UTC()}
}

// failure is the text of an error, without the parts of URLs that can be secrets unless keys
// is set.
func failure(s string, keys bool) cell {
	if s == "" {
		return none()
	}
	if !keys {
		s = withoutSecrets(s)
	}
	if len(s) > maxFailure {
		s = strings.ToValidUTF8(s[:maxFailure], "") + "…"
	}
	c := text(s)
	c.Class = "bad"
	return c
}

// list is a number of things with a line for each.
func list(n int, value any, lines []string) cell {
	c := number(n)
	c.value, c.by = value, c.value
	if more := len(lines) - maxLines; more > 0 {
		lines = append(lines[:maxLines:maxLines], fmt.Sprintf("and %d more", more))
	}
	c.Lines = lines
	return c
}

// key is the value for sorting.
func (c *cell) key() any {
	if c.by != nil {
		return c.by
	}
	return c.value
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func relative(t, now time.Time) string {
	switch d := t.Sub(now); {
	case d > 0:
		return "in " + rough(d)
	case d > -time.Second:
		return "now"
	default:
		return rough(-d) + " ago"
	}
}

// rough is a duration in one unit or two.
func rough(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + rough(-d)
	case d == 0:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", max(1, d.Milliseconds()))
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// visible returns s with escapes for the characters that are not printed, or that change the
// direction of the text.
func visible(s string) string {
	var b strings.Builder
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
		rest = rest[size:]
	}
	return b.String()
}

// short cuts a text after 200 characters.
func short(s string) string {
	n := 0
	for i := range s {
		if n == maxText {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// A URL without its scheme.
var anyURL = regexp.MustCompile(`://[^\s"]+`)

// withoutSecrets leaves out the user, the query and the fragment of each URL in a text.
func withoutSecrets(s string) string {
	return anyURL.ReplaceAllStringFunc(s, func(url string) string {
		rest := url[len("://"):]
		host := rest
		if end := strings.IndexAny(rest, "/?#"); end >= 0 {
			host = rest[:end]
		}
		at := strings.LastIndexByte(host, '@')
		_, port, _ := strings.Cut(host, ":")
		if at < 0 && strings.Trim(port, "0123456789") != "" && strings.Contains(rest, "@") {
			return "://…" // it is the beginning of a password with one of these characters
		}
		rest = rest[at+1:]
		if end := strings.IndexAny(rest, "?#"); end >= 0 {
			rest = rest[:end] + "?…"
		}
		return "://" + rest
	})
}

// order compares two values of a column. Values that are not known are last.
func order(a, b any) int {
	switch a := a.(type) {
	case count:
		if b, ok := b.(count); ok {
			return cmp.Compare(a, b)
		}
	case span:
		if b, ok := b.(span); ok {
			return cmp.Compare(a, b)
		}
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b)
		}
	case time.Time:
		if b, ok := b.(time.Time); ok {
			return a.Compare(b)
		}
	}
	switch {
	case a == nil && b != nil:
		return 1
	case b == nil && a != nil:
		return -1
	}
	return 0
}
