package phase_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/phase"
)

type place int

const (
	outer place = 100
	inner place = 200
)

func (p place) String() string {
	return phase.String(p, phase.Name[place]{Phase: outer, Name: "Outer"}, phase.Name[place]{Phase: inner, Name: "Inner"})
}

func TestStringNamesTheNearestPhaseFurtherOut(t *testing.T) {
	t.Parallel()
	for p, want := range map[place]string{outer: "Outer", 101: "Outer+1", inner: "Inner", 250: "Inner+50", 99: "Phase(99)", 0: "Phase(0)", -3: "Phase(-3)"} {
		require.Equal(t, want, p.String())
	}
}

type plugin struct {
	name string
	in   place
}

func (p *plugin) Name() string { return p.name }
func (p *plugin) Phase() place { return p.in }
func (p *plugin) Close() error { return nil }

func TestSortIsStableAndReportsAllThatCannotBe(t *testing.T) {
	t.Parallel()
	a, b, c := &plugin{"a", inner}, &plugin{"b", outer}, &plugin{"c", inner}
	sorted, errs := phase.Sort("x", []*plugin{a, b, c})
	require.Empty(t, errs)
	require.Equal(t, []*plugin{b, a, c}, sorted)
	require.Equal(t, []string{"Outer *phase_test.plugin(b)", "Inner *phase_test.plugin(a)", "Inner *phase_test.plugin(c)"}, phase.Titles(sorted))
	require.Empty(t, phase.Inversions("x", sorted))

	sorted, errs = phase.Sort("x", []*plugin{a, nil, a})
	require.Equal(t, []*plugin{a}, sorted)
	require.Len(t, errs, 2)
	require.EqualError(t, errs[0], "x.New[1] = <nil>: must be a plugin (did its constructor fail?)")
	require.EqualError(t, errs[1], "x.New[2] = *phase_test.plugin(a): must not be in the pipeline twice")
}
