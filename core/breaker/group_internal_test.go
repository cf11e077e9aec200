package breaker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
)

func TestTheOneToDropIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	g := core.Must(NewGroup(Config{Window: 1}, 1))
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

// SetConfig reads the clock before it has the lock: meanwhile others may have gone on.
func TestARefitWithAClockThatOthersHavePassed(t *testing.T) {
	t.Parallel()
	b := newBuckets(10 * time.Second)
	b.add(11*time.Second, true, false)
	to := b.refit(5*time.Second, 9*time.Second)
	require.Equal(t, counts{calls: 1, failures: 1}, to.counts)
	require.EqualValues(t, 22, to.newest)
}
