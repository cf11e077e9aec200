// Package conferr gives the config errors of a mechanism the names that its
// fields have in the Config of a plugin.
package conferr

import (
	"errors"
	"strings"

	"github.com/gresil/gresil/core"
)

// Relabel returns err with to in place of the first of from that the Field of a
// [*core.ConfigError] begins with, as in
//
//	conferr.Relabel(c.core().Validate(), "breaker.ClientConfig.", "breaker.Config.", "breaker.GroupConfig.")
//
// Joined errors stay joined, one for each; all others are left as they are. err
// itself is not changed. Of nil, or of nothing but nil joined, it returns nil.
func Relabel(err error, to string, from ...string) error {
	switch e := err.(type) { //nolint:errorlint // this is the walk of the tree itself
	case interface{ Unwrap() []error }:
		var errs []error
		for _, one := range e.Unwrap() {
			errs = append(errs, Relabel(one, to, from...))
		}
		return errors.Join(errs...)
	case *core.ConfigError:
		for _, prefix := range from {
			if field, ok := strings.CutPrefix(e.Field, prefix); ok {
				return &core.ConfigError{Field: to + field, Value: e.Value, Reason: e.Reason}
			}
		}
	}
	return err
}
