package hook_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/hook"
)

func TestPanicsKeepsTheFirst(t *testing.T) {
	t.Parallel()
	var p hook.Panics
	require.Nil(t, p.First())
	for _, v := range []string{"one", "two"} {
		func() {
			defer p.Recover()
			panic(v)
		}()
	}
	require.EqualValues(t, 2, p.Count())
	require.Equal(t, "one", p.First().Value)
	require.Contains(t, string(p.First().Stack), "TestPanicsKeepsTheFirst")
}
