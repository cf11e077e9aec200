package conferr_test

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/conferr"
)

func TestRelabel(t *testing.T) {
	t.Parallel()
	bad := func(field string) *core.ConfigError {
		return &core.ConfigError{Field: field, Value: -1, Reason: "must be > 0"}
	}
	one, other := bad("m.Config.Window"), bad("other.Config.Window")
	for _, c := range []struct{ err, want error }{
		{nil, nil},
		{one, bad("p.ClientConfig.Window")},
		{bad("m.Limit.Permits"), bad("p.ClientConfig.Limit.Permits")},
		{other, other},
		{io.EOF, io.EOF},
		{
			errors.Join(one, errors.Join(nil, other, bad("m.Config.Trials")), io.EOF),
			errors.Join(bad("p.ClientConfig.Window"), errors.Join(other, bad("p.ClientConfig.Trials")), io.EOF),
		},
	} {
		require.Equal(t, c.want, conferr.Relabel(c.err, "p.ClientConfig.", "m.Config.", "m."))
	}
	require.Equal(t, "m.Config.Window", one.Field, "what was given is not changed")
}
