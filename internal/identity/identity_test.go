package identity_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/identity"
)

type sized struct{ _ int }

func TestMissingSeesATypedNil(t *testing.T) {
	t.Parallel()
	for _, v := range []any{nil, (*sized)(nil)} {
		require.True(t, identity.Missing(v), "%T", v)
	}
	for _, v := range []any{&sized{}, sized{}, 0, struct{}{}, func() {}} {
		require.False(t, identity.Missing(v), "%T", v)
	}
}

func TestSameIsOfPointersToOneVariable(t *testing.T) {
	t.Parallel()
	type other sized
	type outer struct{ first sized }
	a, o := &sized{}, &outer{}
	require.True(t, identity.Same(a, a))
	for _, c := range [][2]any{
		{a, &sized{}},
		{a, (*other)(a)},
		{o, &o.first},
		{sized{}, sized{}},
		{&struct{}{}, &struct{}{}},
		{func() {}, func() {}},
		{map[string]int{}, map[string]int{}},
		{nil, nil},
		{a, nil},
	} {
		require.False(t, identity.Same(c[0], c[1]), "%T %T", c[0], c[1])
	}
}

func TestComparableLooksIntoInterfaces(t *testing.T) {
	t.Parallel()
	require.True(t, identity.Comparable(&sized{}))
	require.True(t, identity.Comparable(3))
	require.False(t, identity.Comparable(map[string]int{}))
	require.False(t, identity.Comparable(struct{ v any }{func() {}}))
}
