package backoff

import (
	"encoding"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/text"
	"github.com/gresil/gresil/internal/validate"
)

// Parse returns the strategy that a text describes: its kind, its first wait, and after
// that, in this order and if they are not zero, its multiplier, its longest wait and its
// jitter:
//
//	none
//	constant 1s jitter 0.2
//	linear 100ms x1 max 10s
//	exponential 500ms x2 max 1m jitter 0.5
//	exponential 500ms x2 max 1m jitter full
//	decorrelated 1s max 1m
//
// A jitter of full is [FullJitter], and of equal [EqualJitter]. The String of a strategy is
// such a text. Its MarshalText is an error if it has a Rand, or contains a strategy of
// another package, since these have no text. Any other text, and a strategy that is not
// valid, is a [*core.ConfigError].
func Parse(s string) (Strategy, error) {
	r := reader{words: strings.Fields(s)}
	strategy := r.strategy()
	for r.option("jitter") {
		switch r.next() {
		case "full":
			strategy = FullJitter(strategy, nil)
		case "equal":
			strategy = EqualJitter(strategy, nil)
		default:
			r.bad = true
		}
	}
	if r.bad || len(r.words) > 0 {
		return nil, validate.Bad(text.Field[Strategy](), strconv.Quote(s),
			`must be as "none", "constant 1s jitter 0.2", "linear 100ms x1 max 10s", "exponential 500ms x2 max 1m jitter full" or "decorrelated 1s max 1m"`)
	}
	if err := Validate(strategy); err != nil {
		return nil, err
	}
	return strategy, nil
}

// A reader reads the words of a strategy.
type reader struct {
	words []string
	bad   bool
}

func (r *reader) strategy() Strategy {
	switch r.next() {
	case "none":
		return None{}
	case "constant":
		return Constant{Wait: r.duration(), Jitter: r.jitter()}
	case "linear":
		return Linear{Initial: r.duration(), Multiplier: r.multiplier(), Max: r.max(), Jitter: r.jitter()}
	case "exponential":
		return Exponential{Initial: r.duration(), Multiplier: r.multiplier(), Max: r.max(), Jitter: r.jitter()}
	case "decorrelated":
		return Decorrelated{Base: r.duration(), Max: r.max()}
	}
	r.bad = true
	return nil
}

func (r *reader) next() (word string) {
	if len(r.words) > 0 {
		word, r.words = r.words[0], r.words[1:]
	}
	return word
}

// option skips a word if it is next.
func (r *reader) option(word string) bool {
	found := len(r.words) > 0 && r.words[0] == word
	if found {
		r.next()
	}
	return found
}

func (r *reader) duration() time.Duration {
	d, err := time.ParseDuration(r.next())
	r.bad = r.bad || err != nil
	return d
}

func (r *reader) number(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	r.bad = r.bad || err != nil
	return f
}

func (r *reader) multiplier() float64 {
	if len(r.words) == 0 || r.words[0][0] != 'x' {
		return 0
	}
	return r.number(r.next()[1:])
}

func (r *reader) max() time.Duration {
	if !r.option("max") {
		return 0
	}
	return r.duration()
}

// jitter reads a number. It leaves the other forms of jitter to Parse.
func (r *reader) jitter() float64 {
	if len(r.words) < 2 || r.words[0] != "jitter" || r.words[1] == "full" || r.words[1] == "equal" {
		return 0
	}
	r.next()
	return r.number(r.next())
}

// write returns the text of a strategy. A field that is zero is absent.
func write(kind string, wait time.Duration, multiplier float64, most time.Duration, jitter float64) string {
	s := kind + " " + text.Duration(wait)
	if multiplier != 0 {
		s += " x" + strconv.FormatFloat(multiplier, 'g', -1, 64)
	}
	if most != 0 {
		s += " max " + text.Duration(most)
	}
	if jitter != 0 {
		s += " jitter " + strconv.FormatFloat(jitter, 'g', -1, 64)
	}
	return s
}

// marshal returns the text of a strategy of type typ if Parse reads it and random is nil.
func marshal(typ string, s fmt.Stringer, random func() float64) ([]byte, error) {
	if random != nil {
		return nil, validate.Bad("backoff."+typ+".Rand", "set", "must be nil: a function has no text")
	}
	if _, err := Parse(s.String()); err != nil {
		return nil, err
	}
	return []byte(s.String()), nil
}

func unmarshal[T Strategy](s *T, data []byte) error {
	read, err := Parse(string(data))
	if err != nil {
		return err
	}
	v, ok := read.(T)
	if !ok {
		return validate.Bad(text.Field[T](), strconv.Quote(string(data)), "must be a strategy of this type: Parse reads all of them")
	}
	*s = v
	return nil
}

// String returns "none".
func (None) String() string { return "none" }

// MarshalText returns the text of String.
func (s None) MarshalText() ([]byte, error) { return marshal("None", s, nil) }

// UnmarshalText reads the text of MarshalText: see [Parse].
func (s *None) UnmarshalText(data []byte) error { return unmarshal(s, data) }

// String returns the text that [Parse] reads, as "constant 1s jitter 0.2".
func (s Constant) String() string { return write("constant", s.Wait, 0, 0, s.Jitter) }

// MarshalText returns the text of String: see [Parse].
func (s Constant) MarshalText() ([]byte, error) { return marshal("Constant", s, s.Rand) }

// UnmarshalText reads the text of MarshalText: see [Parse].
func (s *Constant) UnmarshalText(data []byte) error { return unmarshal(s, data) }

// String returns the text that [Parse] reads, as "linear 100ms x1 max 10s".
func (s Linear) String() string { return write("linear", s.Initial, s.Multiplier, s.Max, s.Jitter) }

// MarshalText returns the text of String: see [Parse].
func (s Linear) MarshalText() ([]byte, error) { return marshal("Linear", s, s.Rand) }

// UnmarshalText reads the text of MarshalText: see [Parse].
func (s *Linear) UnmarshalText(data []byte) error { return unmarshal(s, data) }

// String returns the text that [Parse] reads, as "exponential 500ms x2 max 1m jitter 0.5".
func (s Exponential) String() string {
	return write("exponential", s.Initial, s.Multiplier, s.Max, s.Jitter)
}

// MarshalText returns the text of String: see [Parse].
func (s Exponential) MarshalText() ([]byte, error) { return marshal("Exponential", s, s.Rand) }

// UnmarshalText reads the text of MarshalText: see [Parse].
func (s *Exponential) UnmarshalText(data []byte) error { return unmarshal(s, data) }

// String returns the text that [Parse] reads, as "decorrelated 1s max 1m".
func (s Decorrelated) String() string { return write("decorrelated", s.Base, 0, s.Max, 0) }

// MarshalText returns the text of String: see [Parse].
func (s Decorrelated) MarshalText() ([]byte, error) { return marshal("Decorrelated", s, s.Rand) }

// UnmarshalText reads the text of MarshalText: see [Parse].
func (s *Decorrelated) UnmarshalText(data []byte) error { return unmarshal(s, data) }

// String returns the text of the inner strategy and "jitter full" or "jitter equal".
func (s jittered) String() string {
	kind := " jitter full"
	if s.least > 0 {
		kind = " jitter equal"
	}
	switch inner := s.inner.(type) {
	case None, Constant, Linear, Exponential, Decorrelated, jittered:
		return fmt.Sprint(inner) + kind
	}
	return fmt.Sprintf("%T", s.inner) + kind // no text
}

func (s jittered) MarshalText() ([]byte, error) {
	if inner, ok := s.inner.(encoding.TextMarshaler); ok {
		if _, err := inner.MarshalText(); err != nil {
			return nil, err
		}
	}
	return marshal(s.typ, s, s.random)
}
