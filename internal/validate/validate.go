// Package validate collects the errors of a Config.
package validate

import (
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/gresil/gresil/core"
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

// Part adds the errors of a part of the Config. Nil adds nothing.
func (c *Check) Part(err error) { c.errs = append(c.errs, err) }

// Strategy adds the errors of the Validate method of a backoff.Strategy, if it has one. Those of package backoff get the name of the field.
func (c *Check) Strategy(field string, s any) {
	if s, ok := s.(interface{ Validate() error }); ok {
		c.Part(Relabel(s.Validate(), c.prefix+field+".", "backoff."))
	}
}

// Err returns the collected errors, joined, or nil.
func (c *Check) Err() error { return errors.Join(c.errs...) }

// Relabel returns err with to instead of from where the Field of a
// [*core.ConfigError] begins with that, as in
//
//	validate.Relabel(c.core().Validate(), "ratelimit.ClientConfig.", "ratelimit.Config.")
//
// Errors of [errors.Join] stay joined. Any other error stays as it is, with its own text. err itself
// is not changed. Of nil it returns nil.
func Relabel(err error, to, from string) error {
	if reflect.TypeOf(err) == reflect.TypeOf(errors.Join(errors.ErrUnsupported)) {
		errs := slices.Clone(err.(interface{ Unwrap() []error }).Unwrap()) // the type of errors.Join
		for i, part := range errs {
			errs[i] = Relabel(part, to, from)
		}
		return errors.Join(errs...)
	}
	if e, ok := err.(*core.ConfigError); ok { //nolint:errorlint // one around it has a text of its own
		if field, ok := strings.CutPrefix(e.Field, from); ok {
			return Bad(to+field, e.Value, e.Reason)
		}
	}
	return err
}

// Bad returns a [*core.ConfigError].
func Bad(field string, value any, reason string) error {
	return &core.ConfigError{Field: field, Value: value, Reason: reason}
}
