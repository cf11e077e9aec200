package backoff

import (
	"errors"
	"math"
	"reflect"
	"time"

	"github.com/gresil/gresil/core"
)

// Validate reports every field of a strategy of this package that cannot be used, joined.
// For another strategy it returns the result of its method Validate() error, if it has
// one, and otherwise nil. A nil s is not an error: in a Config it stands for the default.
// One that is not nil but holds a nil pointer or function, as Func(nil), is a
// [*core.ConfigError].
func Validate(s Strategy) error {
	if v := reflect.ValueOf(s); (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func) && v.IsNil() {
		return &core.ConfigError{Field: "backoff.Strategy", Value: v.Type().String(), Reason: "must not be a nil pointer or function"}
	}
	switch v := s.(type) {
	case interface{ validate() error }:
		return v.validate()
	case interface{ Validate() error }:
		return v.Validate()
	}
	return nil
}

// A validation collects a *core.ConfigError for each bad field of one type.
type validation struct {
	typ  string
	errs []error
}

func (v *validation) check(field string, value any, ok bool, reason string) {
	if !ok {
		v.add(&core.ConfigError{Field: "backoff." + v.typ + "." + field, Value: value, Reason: reason})
	}
}

func (v *validation) max(limit time.Duration, field string, least time.Duration) {
	v.check("Max", limit, limit == 0 || limit > 0 && limit >= least, "must be >= "+field+" (0 means no limit)")
}

func (v *validation) jitter(f float64) {
	v.check("Jitter", f, f >= 0 && f <= 1, "must be between 0 and 1")
}

func (v *validation) add(err error) { v.errs = append(v.errs, err) }

func (v *validation) err() error { return errors.Join(v.errs...) }

func finite(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }
