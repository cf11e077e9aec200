package gate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// The page shows what the vendor has left of each key, and figures count its refusals by reason.
func TestRowsOfQuotas(t *testing.T) {
	t.Parallel()
	var all registry.Registry
	cfg := readLeft()
	cfg.Name, cfg.Registry, cfg.MaxAttempts = "ads", (*core.Registry)(&all), 1
	read := cfg.Classify
	cfg.Classify = func(resp *http.Response, err error) gate.Signal {
		if err != nil {
			return gate.Signal{Permanent: true, Reason: err.Error()}
		}
		return read(resp, err)
	}
	bubble(t, cfg, func(t tester, g *gate.Gate) {
		e, _ := all.Get("gate", "ads")
		require.NoError(t, get(g.WithCall(t.Context(), account("a")), g.Transport(left(func() (string, string) { return "7", "60" }))))
		require.NoError(t, get(g.WithCall(t.Context(), account("b")), g.Transport(left(func() (string, string) { return "5", "60" }))))
		rows, err := e.Source.Rows(t.Context())
		require.NoError(t, err)
		require.Len(t, rows, 3)
		for i, want := range []registry.Row{{Key: "account:b", Secret: true}, {Key: "account:a", Secret: true}} {
			cells := rows[i+1].Cells
			require.Equal(t, []string{"5", "7"}[i], cells[4].Value)
			require.InDelta(t, time.Minute, time.Until(cells[5].Value.(time.Time)), float64(time.Second)) //nolint:forcetypeassert // a time
			rows[i+1].Cells = nil
			require.Equal(t, want, rows[i+1])
		}
		for i := range 40 {
			reason := errors.New(fmt.Sprint("reason ", i%35))
			require.Error(t, g.Do(t.Context(), account("a"), func(context.Context) error { return reason }))
		}
		counts := map[string]float64{}
		for _, f := range e.Source.Figures() {
			if f.Name == "refusals_total" {
				counts[f.Labels[1]] = f.N
			}
		}
		require.Len(t, counts, 33)
		require.Equal(t, []float64{2, 2, 1, 4, 0}, []float64{counts["reason 0"], counts["reason 4"], counts["reason 5"], counts["other"], counts["limit"]})
		time.Sleep(time.Minute)
		rows, err = e.Source.Rows(t.Context())
		require.NoError(t, err)
		require.Len(t, rows, 1)
	})
}

// The page shows how much of a limit is used, the most used key first.
func TestRowsOfUsage(t *testing.T) {
	t.Parallel()
	var all registry.Registry
	cfg := gate.Config{Name: "ads", Registry: (*core.Registry)(&all), Limits: []gate.Limit{{Name: "account", N: 10, Per: time.Minute, Burst: 5, Key: gate.ByCall}}}
	bubble(t, cfg, func(t tester, g *gate.Gate) {
		e, _ := all.Get("gate", "ads")
		used := func() (all []string) {
			rows, err := e.Source.Rows(t.Context())
			require.NoError(t, err)
			for _, r := range rows[1:] {
				all = append(all, fmt.Sprint(r.Key, " ", r.Cells[2].Value))
			}
			return all
		}
		for _, key := range []string{"b", "a", "a", "a"} {
			require.NoError(t, do(t.Context(), g, account(key), 0))
		}
		require.Equal(t, []string{"account:a 3 of 5", "account:b 1 of 5"}, used())
		time.Sleep(15 * time.Second)
		require.Equal(t, []string{"account:a 2 of 5"}, used())
		time.Sleep(time.Minute)
		require.Empty(t, used())
	})
}

// What an answer to an earlier call says counts again when the newest has run out.
func TestQuotaIsOver(t *testing.T) {
	t.Parallel()
	var all registry.Registry
	cfg := readLeft()
	cfg.Name, cfg.Registry = "ads", (*core.Registry)(&all)
	bubble(t, cfg, func(t tester, g *gate.Gate) {
		e, _ := all.Get("gate", "ads")
		ctx := g.WithCall(t.Context(), account("a"))
		slow := left(func() (string, string) { return "6", "60" })
		go func() {
			_ = get(ctx, g.Transport(roundTrip(func(r *http.Request) (*http.Response, error) {
				time.Sleep(3 * time.Second)
				return slow.RoundTrip(r)
			})))
		}()
		synctest.Wait()
		require.NoError(t, get(ctx, g.Transport(left(func() (string, string) { return "5", "1" }))))
		time.Sleep(4 * time.Second)
		rows, err := e.Source.Rows(t.Context())
		require.NoError(t, err)
		require.Len(t, rows, 2)
		require.Equal(t, "6", rows[1].Cells[4].Value)
	})
}
