package validate_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/validate"
)

func TestRelabel(t *testing.T) {
	t.Parallel()
	one, other := bad("m.Config.Window"), bad("other.Config.Window")
	for _, c := range []struct{ err, want error }{
		{nil, nil},
		{one, bad("p.ClientConfig.Window")},
		{other, other},
		{io.EOF, io.EOF},
		{
			errors.Join(one, errors.Join(nil, other, bad("m.Config.Trials")), io.EOF),
			errors.Join(bad("p.ClientConfig.Window"), errors.Join(other, bad("p.ClientConfig.Trials")), io.EOF),
		},
	} {
		require.Equal(t, c.want, validate.Relabel(c.err, "p.ClientConfig.", "m.Config."))
	}
	require.Equal(t, "m.Config.Window", one.Field, "what was given is not changed")
}

// An error of several that has a text of its own keeps it.
func TestRelabelKeepsText(t *testing.T) {
	t.Parallel()
	for _, err := range []error{fmt.Errorf("api: %w: %w", bad("m.Config.Window"), io.EOF), fmt.Errorf("api: %w", bad("m.Config.Window"))} {
		require.Equal(t, err, validate.Relabel(err, "p.ClientConfig.", "m.Config."))
		joined := errors.Join(bad("m.Config.Window"), err)
		require.Equal(t, errors.Join(bad("p.ClientConfig.Window"), err), validate.Relabel(joined, "p.ClientConfig.", "m.Config."))
	}
}

func TestCheckReportsEveryFieldWithItsPath(t *testing.T) {
	t.Parallel()
	check := validate.Of("p.Config")
	check.That(true, "Good", 1, "must be > 0")
	require.NoError(t, check.Err())
	check.That(false, "Bad", -1, "must be > 0")
	check.Part(bad("p.Config.Limit.Window"))
	check.Part(nil)
	require.EqualError(t, check.Err(), "p.Config.Bad = -1: must be > 0\np.Config.Limit.Window = -1: must be > 0")
	require.ErrorIs(t, check.Err(), core.ErrConfig)
}

func bad(field string) *core.ConfigError {
	return &core.ConfigError{Field: field, Value: -1, Reason: "must be > 0"}
}
