package backoff

import (
	"math"
	"reflect"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/validate"
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

func checkMax(check *validate.Check, limit time.Duration, field string, least time.Duration) {
	check.That(limit == 0 || limit > 0 && limit >= least, "Max", limit, "must be >= "+field+" (0 means no limit)")
}

func checkJitter(check *validate.Check, f float64) {
	check.That(f >= 0 && f <= 1, "Jitter", f, "must be between 0 and 1")
}

func finite(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }
