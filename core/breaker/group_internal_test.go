package breaker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
)

func TestTheOneToDropIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	g := core.Must(NewGroup(Config{Window: 1}, GroupConfig{MaxKeys: 1}))
	b := g.Get("a")
	i := g.victim()
	require.Zero(t, i)
	p, err := b.Acquire(context.Background())
	require.NoError(t, err)
	p.Done(core.Failure) // it opens
	require.False(t, g.drop(i))
	require.Same(t, b, g.Get("a"))
	require.Zero(t, g.Stats().Evicted)
}
