package hook_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/hook"
)

type hooks struct {
	Happened func(context.Context, *[]string)
}

func (h hooks) Join(other hooks) hooks { return hooks{hook.Join(h.Happened, other.Happened)} }

func to(name string) hooks {
	return hooks{func(_ context.Context, told *[]string) { *told = append(*told, name) }}
}

func tell(ctx context.Context, s *hook.Set[hooks]) (told []string) {
	if f := s.Load().Happened; f != nil {
		f(ctx, &told)
	}
	return told
}

func TestASetHasItsOwnHooksAndThoseThatAreAdded(t *testing.T) {
	t.Parallel()
	var s hook.Set[hooks]
	s.Own(hooks{})
	require.Nil(t, s.Load().Happened)
	cancel := s.Add(to("added"))
	s.Own(to("own"))
	require.Equal(t, []string{"own", "added"}, tell(t.Context(), &s))
	s.Own(to("other"))
	require.Equal(t, []string{"other", "added"}, tell(t.Context(), &s))
	cancel()
	cancel()
	require.Equal(t, []string{"other"}, tell(t.Context(), &s))
	s.Own(hooks{})
	require.Nil(t, tell(t.Context(), &s))
}

// Whoever looks while the own hooks change sees the old or the new ones.
func TestOwnHooksAreReplacedAtOnce(t *testing.T) {
	t.Parallel()
	var s hook.Set[hooks]
	s.Own(to("a"))
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 2000 {
			s.Own(to([]string{"a", "b"}[i%2]))
		}
	})
	for range 2000 {
		if told := tell(t.Context(), &s); len(told) != 1 {
			t.Error(told)
		}
	}
	wg.Wait()
}
