package core_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
)

func TestOutcome(t *testing.T) {
	t.Parallel()
	var zero core.Outcome
	require.Equal(t, core.Ignored, zero, "a forgotten outcome decides nothing")
	for o, want := range map[core.Outcome]string{core.Ignored: "ignored", core.Success: "success", core.Failure: "failure", 9: "Outcome(9)"} {
		require.Equal(t, want, o.String())
	}
}
