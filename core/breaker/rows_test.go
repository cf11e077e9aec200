package breaker_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/internal/registry"
)

func TestRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testRows)
}

func testRows(t *testing.T) {
	var all registry.Registry
	g := core.Must(breaker.NewGroup(breaker.Config{Name: "hosts", Registry: (*core.Registry)(&all)}))
	single := core.Must(breaker.New(breaker.Config{Name: "single", Registry: (*core.Registry)(&all)}))
	source := func(name string) registry.Source {
		e, ok := all.Get("breaker", name)
		require.True(t, ok)
		return e.Source
	}
	states := func(name string) (found []string) {
		rows, err := source(name).Rows(t.Context())
		require.NoError(t, err)
		for _, r := range rows {
			found = append(found, fmt.Sprint(r.Key, " ", r.Cells[0].Value, " ", r.Verbs))
			require.Equal(t, name != "single" && r.Verbs != nil, r.Secret, "nobody has said that the keys are hosts")
		}
		return found
	}
	require.NoError(t, g.For("closed").SetState(breaker.Closed))
	require.NoError(t, g.For("open").OpenFor(time.Hour))
	require.NoError(t, g.For("stays").SetState(breaker.MetricsOnly))
	require.Equal(t, []string{"open open [close force_open]", "stays metrics_only [close force_open]"}, states("hosts"))
	require.Equal(t, []string{" closed [force_open]"}, states("single"))
	rows, err := source("hosts").Rows(t.Context())
	require.NoError(t, err)
	require.Equal(t, []registry.Alarm{registry.Failing, registry.Notice}, []registry.Alarm{rows[0].Alarm, rows[1].Alarm})
	until := rows[0].Cells[slices.IndexFunc(rows[0].Cells, func(c registry.Cell) bool { return c.Name == "until" })].Value
	require.Equal(t, time.Now().Add(time.Hour), until)

	do := func(name, verb, row string) int {
		n, err := source(name).Control(t.Context(), verb, row)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, 1, do("hosts", "force_open", "open"))
	require.Equal(t, 1, do("hosts", "close", "stays"))
	require.Equal(t, 1, do("hosts", "close", "evicted"))
	require.Equal(t, []string{"open forced_open [close]"}, states("hosts"))
	require.Equal(t, 1, do("single", "force_open", ""))
	require.Equal(t, breaker.ForcedOpen, single.State())
	require.Equal(t, 1, do("single", "close", ""))
	require.Equal(t, []string{" closed [force_open]"}, states("single"))

	require.NoError(t, g.For("open").SetState(breaker.Closed))
	require.NoError(t, g.For("open").OpenFor(time.Minute))
	forced := core.Must(breaker.NewGroup(breaker.Config{Name: "forced", Registry: (*core.Registry)(&all), Initial: breaker.ForcedOpen}))
	forced.For("a")
	full := core.Must(breaker.NewGroup(breaker.Config{Name: "full", Registry: (*core.Registry)(&all), MaxKeys: 1}))
	require.NoError(t, full.For("a").OpenFor(24*time.Hour))
	require.NoError(t, full.For("b").OpenFor(24*time.Hour))
	time.Sleep(2 * time.Hour)
	require.Equal(t, []string{"open half_open [close force_open]"}, states("hosts"), "also if it can be evicted")
	require.NoError(t, g.For("a").SetState(breaker.Disabled))
	require.Equal(t, []string{"open half_open [close force_open]", "a disabled [close force_open]"}, states("hosts"), "failing ones first")
	require.Equal(t, []string{"a forced_open [close]"}, states("forced"), "as each begins")
	require.Equal(t, []string{"(keys without room) open []", "a open [close force_open]"}, states("full"), "with the one that keys without room share")
}
