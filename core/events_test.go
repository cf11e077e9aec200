package core_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/retry"
)

func TestASecondUseOfANameGivesTheFirstInstance(t *testing.T) {
	t.Parallel()
	var r core.Registry
	first := core.Must(retry.New(retry.Config{Name: "x", Registry: &r}))
	second, err := retry.New(retry.Config{Name: "x", Registry: &r, MaxAttempts: 9})
	require.Nil(t, second, "its config is not ignored without a word")
	require.ErrorIs(t, err, core.ErrConfig)
	found, ok := core.Lookup[*retry.Policy](&r, "retry", "x")
	require.True(t, ok)
	require.Same(t, first, found)
}

func TestASubscriptionIsThereAtOnceAndEndsByItself(t *testing.T) {
	t.Parallel()
	var r core.Registry
	a, b := 0, 0
	_, cancelA := r.Subscribe(func(core.RegistryEvent) { a++ })
	_, cancelB := r.Subscribe(func(core.RegistryEvent) { b++ })
	require.NoError(t, r.Add("k", "1", new(int)))
	require.Equal(t, [2]int{1, 1}, [2]int{a, b})
	cancelA()
	require.NoError(t, r.Add("k", "2", new(int)))
	require.Equal(t, [2]int{1, 2}, [2]int{a, b})
	cancelB()
	cancelB()
	require.NoError(t, r.Add("k", "3", new(int)))
	require.Equal(t, [2]int{1, 2}, [2]int{a, b})
}

func TestLaterSubscriptionsAreNotCanceledWithEarlierOnes(t *testing.T) {
	t.Parallel()
	var r core.Registry
	_, cancel := r.Subscribe(func(core.RegistryEvent) { t.Error("canceled") })
	cancel()
	told := 0
	r.Subscribe(func(core.RegistryEvent) { told++ })
	require.NoError(t, r.Add("k", "1", new(int)))
	require.Equal(t, 1, told)
}

// A slow subscriber delays no other, and none is called with a
// lock held.
func TestASubscriberThatBlocksHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	var r core.Registry
	entered, leave, told := make(chan struct{}), make(chan struct{}), 0
	r.Subscribe(func(core.RegistryEvent) {
		told++
		if told == 1 {
			close(entered)
			<-leave
		}
	})
	done := make(chan error)
	go func() { done <- r.Add("k", "1", new(int)) }()
	<-entered
	require.NoError(t, r.Add("k", "2", new(int)))
	_, ok := r.Get("k", "2")
	require.True(t, ok)
	close(leave)
	require.NoError(t, <-done)
	require.Equal(t, 2, told, "the one that tells has told of the other too")
}
