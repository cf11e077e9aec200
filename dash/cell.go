package dash

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/registry"
	form "github.com/gresil/gresil/internal/text"
)

// A cell is one value. The zero cell means that the value is not known.
type cell struct {
	Text  string
	Full  string   // the whole text, or the exact value
	Class string   // "number", or empty
	Lines []string // details, for a list that can be opened
	value any      // in JSON; nil if it is not known
	n     float64  // for sorting, before Full
}

// MarshalJSON implements json.Marshaler.
func (c cell) MarshalJSON() ([]byte, error) { return json.Marshal(c.value) }

// The longest text, in characters, and the longest text that can contain secrets, such as that of an error, in bytes.
const maxText, maxSecret = 200, 2 << 10

// column returns the key of a column. Durations are seconds in JSON.
func column(c registry.Cell) string {
	if _, ok := c.Value.(time.Duration); ok {
		return c.Name + "_s"
	}
	return c.Name
}

// float returns a value as a number, and whether it is a finite one.
func float(value any) (n float64, ok bool) {
	v, to := reflect.ValueOf(value), reflect.TypeFor[float64]()
	if !v.IsValid() || !v.CanConvert(to) {
		return 0, false
	}
	n = v.Convert(to).Float()
	return n, !math.IsNaN(n) && !math.IsInf(n, 0)
}

// decimal returns the text of a number, with at most 3 digits after the point.
func decimal(n float64) string { return strconv.FormatFloat(math.Round(n*1000)/1000, 'f', -1, 64) }

// cell returns a value as a cell.
func (v *view) cell(c registry.Cell) cell {
	n, number := float(c.Value)
	switch x := c.Value.(type) {
	case time.Time:
		if x.IsZero() {
			return cell{}
		}
		exact := x.UTC().Format(time.RFC3339Nano)
		return cell{Text: relative(x, v.Now), Full: stamp(x), Class: "number", value: exact, n: float64(x.UnixMilli())}
	case time.Duration:
		return cell{Text: rough(x), Full: x.String(), Class: "number", value: x.Seconds(), n: n}
	case bool:
		return cell{Text: strconv.FormatBool(x), Full: strconv.FormatBool(x), value: x}
	case []string:
		lines := make([]string, len(x))
		for i, line := range x {
			lines[i] = v.text(line, c.Secret).Full
		}
		return list(lines, lines)
	case fmt.Stringer:
		return v.text(x.String(), c.Secret)
	case string:
		return v.text(x, c.Secret)
	}
	if !number {
		return cell{}
	}
	return cell{Text: decimal(n), Full: decimal(n), Class: "number", value: c.Value, n: n}
}

// text returns a text as a cell. A text that can contain secrets is cut; unless keys are shown, the parts of URLs that can be secrets are
// left out.
func (v *view) text(s string, secret bool) cell {
	if s == "" {
		return cell{value: ""}
	}
	if secret && !v.keys {
		s = withoutSecrets(s)
	}
	if secret && len(s) > maxSecret {
		s = strings.ToValidUTF8(s[:maxSecret], "") + "…"
	}
	all := visible(s)
	return cell{Text: short(all), Full: all, value: s}
}

// list returns a cell with the number of lines, which can be opened to show them.
func list(lines []string, value any) cell {
	return cell{Text: strconv.Itoa(len(lines)), Class: "number", Lines: lines, value: value, n: float64(len(lines))}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func relative(t, now time.Time) string {
	if d := t.Sub(now); d > 0 {
		return "in " + rough(d.Round(time.Second))
	}
	return rough(now.Sub(t).Round(time.Second)) + " ago"
}

// rough returns a rounded duration.
func rough(d time.Duration) string {
	if d >= time.Hour {
		d = d.Round(time.Minute)
	}
	return form.About(d)
}

// visible returns s with escapes for characters that are not printable, or that change the direction of the text.
func visible(s string) string {
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// short cuts a text after 200 characters.
func short(s string) string {
	if runes := []rune(s); len(runes) > maxText {
		return string(runes[:maxText]) + "…"
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
			return "://…" // rest begins with a password that contains one of these characters
		}
		rest = rest[at+1:]
		if end := strings.IndexAny(rest, "?#"); end >= 0 {
			rest = rest[:end] + "?…"
		}
		return "://" + rest
	})
}
