// Package text is the text form of constants and durations.
package text

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Name returns the name of v, the constant with that index, and for any other v a text such as
// "State(9)".
func Name[E ~uint8](v E, names ...string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", reflect.TypeFor[E]().Name(), uint8(v))
}

// NonZero formats words with values, as in "calls=%d slow=%d", without those that are 0.
func NonZero(format string, args ...any) string {
	words := strings.Fields(fmt.Sprintf(format, args...))
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return strings.HasSuffix(w, "=0") }), " ")
}

// Duration returns the text of d without the zeros at its end, as 1h for 1h0m0s.
// [time.ParseDuration] reads it.
func Duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// About returns the text of a measured duration for people, rounded up: to seconds from 10 seconds on, as
// in 25s, otherwise to hundredths of a second, to milliseconds or to microseconds.
func About(d time.Duration) string {
	unit := time.Second
	switch {
	case d < time.Millisecond:
		unit = time.Microsecond
	case d < time.Second:
		unit = time.Millisecond
	case d < 10*time.Second:
		unit = 10 * time.Millisecond
	}
	if rest := d % unit; rest > 0 && d <= math.MaxInt64-unit {
		d += unit - rest
	}
	return Duration(d)
}
