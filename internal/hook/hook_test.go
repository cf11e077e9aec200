package hook_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/hook"
)

func TestPanicsAreCountedAndGoNoFurther(t *testing.T) {
	t.Parallel()
	var p hook.Panics
	for _, v := range []string{"one", "two"} {
		func() {
			defer p.Recover()
			panic(v)
		}()
	}
	require.EqualValues(t, 2, p.Count())
}
