package override_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/override"
)

type (
	plugin struct{ _ int }
	call   struct{ steps []string }
)

func add(step string) func(*call) {
	return func(c *call) { c.steps = append(c.steps, step) }
}

func TestOverridesNestAndTheInnermostIsLast(t *testing.T) {
	t.Parallel()
	one, other := &plugin{}, &plugin{}
	ctx := t.Context()
	require.Nil(t, override.From[plugin, call](ctx, one))
	ctx = override.Context(ctx, one, add("outer"))
	ctx = override.Context[plugin, call](ctx, one, nil)
	ctx = override.Context(ctx, other, add("other"))
	ctx = override.Context(ctx, one, add("inner"))
	var c call
	override.From[plugin, call](ctx, one)(&c)
	require.Equal(t, []string{"outer", "inner"}, c.steps)
	require.Equal(t, &c, override.Apply(ctx, one, &call{}))
	require.Same(t, &c, override.Apply(ctx, &plugin{}, &c), "no copy without an override")
}
