// Package validate collects the errors of a Config.
package validate

import (
	"errors"
	"strings"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/text"
)

// A Check collects the fields of one Config that cannot be used. Make it with [Of].
type Check struct {
	prefix string
	errs   []error
}

// Of returns an empty Check for a Config type, as "retry.Config".
func Of(typ string) *Check { return &Check{prefix: typ + "."} }

// That adds a [*core.ConfigError] for field unless ok. reason names the accepted values.
func (c *Check) That(ok bool, field string, value any, reason string) {
	if !ok {
		c.errs = append(c.errs, &core.ConfigError{Field: c.prefix + field, Value: value, Reason: reason})
	}
}

// Part adds the errors of the Config of a mechanism, under the names that its fields
// have in this Config: the first of from that a field begins with is replaced. Nil adds
// nothing.
func (c *Check) Part(err error, from ...string) {
	c.errs = append(c.errs, Relabel(err, c.prefix, from...))
}

// Own returns the error of the Validate method of v, or nil if it has none.
func Own(v any) error {
	if v, ok := v.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

// Err returns the collected errors, joined, or nil.
func (c *Check) Err() error { return errors.Join(c.errs...) }

// Relabel returns err with to instead of the first of from that the Field of a
// [*core.ConfigError] begins with, as in
//
//	validate.Relabel(c.core().Validate(), "ratelimit.ClientConfig.", "ratelimit.Config.")
//
// Joined errors stay joined. An error without such a Field stays as it is, with its own
// text. err itself is not changed. Of nil it returns nil.
func Relabel(err error, to string, from ...string) error {
	_, err = relabel(err, to, from)
	return err
}

// relabel reports too whether it has changed a Field: errors cannot always be compared.
func relabel(err error, to string, from []string) (changed bool, _ error) {
	switch e := err.(type) { //nolint:errorlint // this is the walk of the tree itself
	case interface{ Unwrap() []error }:
		var errs []error
		for _, part := range e.Unwrap() {
			other, part := relabel(part, to, from)
			errs = append(errs, part)
			changed = changed || other
		}
		if changed { // otherwise err may have a text of its own
			return true, errors.Join(errs...)
		}
	case *core.ConfigError:
		for _, prefix := range from {
			if field, ok := strings.CutPrefix(e.Field, prefix); ok {
				return true, &core.ConfigError{Field: to + field, Value: e.Value, Reason: e.Reason}
			}
		}
	}
	return false, err
}

// Bad returns a [*core.ConfigError].
func Bad(field string, value any, reason string) error {
	return &core.ConfigError{Field: field, Value: value, Reason: reason}
}

// MarshalText returns the text of v, or a [*core.ConfigError] if v is above last, the last
// constant of its type.
func MarshalText[E text.Enum](v, last E) ([]byte, error) { return text.Marshal(v, last, Bad) }

// UnmarshalText sets v to the constant, at most last, whose text is s. If there is none, it
// returns a [*core.ConfigError] and leaves v unchanged.
func UnmarshalText[E text.Enum](v *E, last E, s []byte) error { return text.Unmarshal(v, last, s, Bad) }
