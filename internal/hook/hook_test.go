package hook_test

import (
	"runtime"
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

func TestApartReturnsHoweverTheHookEnds(t *testing.T) {
	t.Parallel()
	var p hook.Panics
	n := 0
	p.Apart(func() { n++ })
	p.Apart(func() { n++; panic("hook") })
	p.Apart(func() { n++; runtime.Goexit() })
	require.Equal(t, 3, n)
	require.EqualValues(t, 1, p.Count())
}
