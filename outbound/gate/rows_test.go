package gate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/outbound/gate"
)

// The page shows the vendor and its held keys, and resumes them.
func TestRows(t *testing.T) {
	t.Parallel()
	var all registry.Registry
	cfg := gate.Config{Name: "ads", Registry: (*core.Registry)(&all), InFlight: 4, Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}}}
	bubble(t, cfg, func(t tester, g *gate.Gate) {
		e, ok := all.Get("gate", "ads")
		require.True(t, ok)
		row := func(key string) (found registry.Row, cells map[string]any) {
			rows, err := e.Source.Rows(t.Context())
			require.NoError(t, err)
			for _, r := range rows {
				if r.Key == key {
					cells = map[string]any{}
					for _, c := range r.Cells {
						cells[c.Name] = c.Value
					}
					return r, cells
				}
			}
			return found, nil
		}
		resume := func(key string) {
			_, err := e.Source.Control(t.Context(), "resume", key)
			require.NoError(t, err)
		}
		r, cells := row("")
		require.Equal(t, registry.Calm, r.Alarm)
		require.Empty(t, r.Verbs)
		require.Equal(t, 4, cells["max_in_flight"])
		require.Zero(t, cells["held_until"])

		refused(t, g, account("a"), 0, time.Minute)
		refused(t, g, account("b"), 0, time.Minute)
		synctest.Wait()
		go func() { _ = do(t.Context(), g, account("a"), 0) }()
		synctest.Wait()
		r, cells = row("account:a")
		require.Equal(t, []any{registry.Notice, true, []string{"resume"}}, []any{r.Alarm, r.Secret, r.Verbs})
		require.Equal(t, "account", cells["limit"])
		require.Equal(t, g.Holds()[0].Until.Round(time.Second), cells["held_until"].(time.Time).Round(time.Second)) //nolint:forcetypeassert // a time
		_, cells = row("")
		require.Equal(t, 1, cells["waiting"])
		resume("account:a")
		resume("account:a") // it is over
		synctest.Wait()
		_, cells = row("account:a")
		require.Nil(t, cells)
		require.Len(t, g.Holds(), 1)

		refused(t, g, gate.Call{}, 0, time.Minute)
		synctest.Wait()
		r, cells = row("")
		require.Equal(t, registry.Failing, r.Alarm)
		require.NotZero(t, cells["held_until"])
		resume("")
		require.Empty(t, g.Holds())
	})
}
