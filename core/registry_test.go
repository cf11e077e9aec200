package core_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
)

func TestRegistryHoldsOneInstanceForAName(t *testing.T) {
	t.Parallel()
	var r core.Registry
	a, b := new(int), new(int)
	*b = 1
	require.NoError(t, r.Add("retry", "api", a))
	require.NoError(t, r.Add("breaker", "api", b), "another kind is another name")
	err := r.Add("retry", "api", b)
	require.ErrorIs(t, err, core.ErrConfig)
	require.EqualError(t, err, `core.Registry.Add = ("retry", "api"): is already registered`)

	got, ok := r.Get("retry", "api")
	require.True(t, ok)
	require.Same(t, a, got)
	require.Equal(t, []core.Entry{{Kind: "breaker", Name: "api", Instance: b}, {Kind: "retry", Name: "api", Instance: a}}, slices.Collect(r.All()))

	require.False(t, r.Remove("retry", "api", b), "a stale owner removes nothing")
	require.True(t, r.Remove("retry", "api", a))
	require.False(t, r.Remove("retry", "api", a))
	_, ok = r.Get("retry", "api")
	require.False(t, ok)
}

func TestRegistryRefusesWhatHasNoName(t *testing.T) {
	t.Parallel()
	var r core.Registry
	for _, err := range []error{r.Add("", "x", new(int)), r.Add("k", "", new(int)), r.Add("k", "x", nil)} {
		require.ErrorIs(t, err, core.ErrConfig)
	}
	_, err := r.Replace("k", "", new(int))
	require.ErrorIs(t, err, core.ErrConfig)
}

func TestRegistryRefusesANameThatIsNoUTF8(t *testing.T) {
	t.Parallel()
	var r core.Registry
	const want = `core.Registry.Add = ("k", "\xff", *int): kind and name must be UTF-8`
	require.EqualError(t, r.Add("k", "\xff", new(int)), want)
	require.ErrorIs(t, r.Add("\xff", "x", new(int)), core.ErrConfig)
	_, err := r.Replace("k", "\xff", new(int))
	require.ErrorIs(t, err, core.ErrConfig)
	require.NoError(t, r.Add("k", "zürich", new(int)))
}

func TestRegistryRefusesANilPointer(t *testing.T) {
	t.Parallel()
	var r core.Registry
	require.ErrorIs(t, r.Add("k", "x", (*int)(nil)), core.ErrConfig)
}

func TestRegistryRemoveDoesNotPanicOnWhatCannotBeCompared(t *testing.T) {
	t.Parallel()
	var r core.Registry
	m := map[string]int{}
	require.EqualError(t, r.Add("k", "x", m), `core.Registry.Add = ("k", "x", map[string]int): the instance must be comparable, as a pointer is`)
	_, err := r.Replace("k", "x", m)
	require.ErrorIs(t, err, core.ErrConfig)

	type box struct{ v any }
	require.NoError(t, r.Add("k", "x", box{1}))
	require.False(t, r.Remove("k", "x", m))
	require.False(t, r.Remove("k", "x", box{m}))
	require.True(t, r.Remove("k", "x", box{1}), "a value may be in a registry")
}

func TestRegistryTellsOfEachChangeInOrder(t *testing.T) {
	t.Parallel()
	var r core.Registry
	a, b := new(int), new(int)
	require.NoError(t, r.Add("k", "before", a))
	var told []string
	now, cancel := r.Subscribe(func(e core.RegistryEvent) {
		told = append(told, fmt.Sprint(e.Kind, " ", e.Entry.Name))
		if e.Kind == core.Replaced {
			require.Same(t, a, e.Old)
			require.Same(t, b, e.Entry.Instance)
			require.True(t, r.Remove("k", "x", b), "it may use the registry")
			require.NotContains(t, told, "removed x", "which only queues")
		}
	})
	require.Equal(t, []core.Entry{{Kind: "k", Name: "before", Instance: a}}, now)
	require.NoError(t, r.Add("k", "x", a))
	old, err := r.Replace("k", "x", b)
	require.NoError(t, err)
	require.Same(t, a, old)
	old, err = r.Replace("k", "y", b)
	require.NoError(t, err)
	require.Nil(t, old)
	cancel()
	require.True(t, r.Remove("k", "y", b))
	require.Equal(t, []string{"added x", "replaced x", "removed x", "added y"}, told)
}

func TestRegistrySurvivesAPanickingSubscriber(t *testing.T) {
	t.Parallel()
	var r core.Registry
	told := 0
	r.Subscribe(func(core.RegistryEvent) { panic("subscriber") })
	r.Subscribe(func(core.RegistryEvent) { told++ })
	require.NoError(t, r.Add("k", "x", new(int)))
	require.NoError(t, r.Add("k", "y", new(int)))
	require.Equal(t, 2, told)
	require.EqualValues(t, 2, r.HookPanics())
}

func TestRegistryTellsTheOthersIfASubscriberEndsTheGoroutine(t *testing.T) {
	t.Parallel()
	var r core.Registry
	var told []string
	subscribe := func(f func()) {
		r.Subscribe(func(e core.RegistryEvent) {
			told = append(told, e.Entry.Name)
			f()
		})
	}
	subscribe(runtime.Goexit)
	subscribe(func() {})
	subscribe(runtime.Goexit)
	subscribe(func() { panic("subscriber") })
	subscribe(func() {})
	for _, name := range []string{"a", "b"} {
		var adds sync.WaitGroup
		adds.Go(func() { _ = r.Add("k", name, new(int)) })
		adds.Wait()
	}
	require.Equal(t, []string{"a", "a", "a", "a", "a", "b", "b", "b", "b", "b"}, told)
	require.EqualValues(t, 2, r.HookPanics())
}

func TestRegistryConcurrently(t *testing.T) {
	t.Parallel()
	var r core.Registry
	var mu sync.Mutex
	balance := map[string]int{}
	_, cancel := r.Subscribe(func(e core.RegistryEvent) {
		mu.Lock()
		defer mu.Unlock()
		switch e.Kind {
		case core.Added:
			balance[e.Entry.Name]++
		case core.Removed:
			balance[e.Entry.Name]--
		case core.Replaced, core.Reconfigured, core.Tagged:
		}
		if n := balance[e.Entry.Name]; n < 0 || n > 1 {
			t.Errorf("%s was told %d times more added than removed", e.Entry.Name, n)
		}
	})
	defer cancel()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				name, v := fmt.Sprint(i%7), new(int)
				if r.Add("k", name, v) == nil {
					for range r.All() {
						break
					}
					if !r.Remove("k", name, v) {
						t.Errorf("%s was mine", name)
					}
				}
			}
		})
	}
	wg.Wait()
	require.Empty(t, slices.Collect(r.All()))
}

func TestRegistryEventKindText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "added replaced removed reconfigured tagged RegistryEventKind(7)", fmt.Sprint(core.Added, " ", core.Replaced, " ", core.Removed, " ", core.Reconfigured, " ", core.Tagged, " ", core.RegistryEventKind(7)))
}
