package validate

import (
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/text"
)

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
