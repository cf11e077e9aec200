package groups_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/internal/groups"
	"github.com/gresil/gresil/internal/groups/groupstest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	groupstest.Run(t, groups.NewMemory(), time.Sleep)
}

// Results are known for ten minutes.
func TestMemoryResultLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, ctx := groups.NewMemory(), t.Context()
		for _, id := range []string{"1", "2"} {
			_, _, err := s.Add(ctx, "q", groups.Record{ID: id}, groups.Rules{MaxPending: 1, FlushSize: 1})
			require.NoError(t, err)
			b, _, err := s.Take(ctx, "q", groups.Terms{ID: id, MaxRecords: 1, FlushAfter: 1, Ahead: 1})
			require.NoError(t, err)
			require.NoError(t, s.Replace(ctx, "q", b, nil, []groups.Result{{ID: id}}, ""))
			time.Sleep(groups.ResultLife - time.Second)
			got, err := s.Results(ctx, "q", []string{"1", "2"})
			require.NoError(t, err)
			require.Len(t, got, 1)
			require.Contains(t, got, id)
		}
	})
}
