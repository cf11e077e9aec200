package breaker

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

// show returns the row of a breaker.
func (b *Breaker) show(secret bool) registry.Row {
	s, until := b.Stats(), time.Time{}
	if e := b.refusal.Load(); e != nil {
		until = e.until
	}
	others := slices.DeleteFunc([]string{"close", "force_open"}, func(verb string) bool { return verbs[verb] == s.State })
	return registry.Row{Key: b.key, Secret: secret, Alarm: alarms[s.State], Verbs: others, Cells: []registry.Cell{
		{Name: "state", Value: s.State.String()},
		{Name: "since", Value: s.Since},
		{Name: "until", Value: until},
		{Name: "calls", Value: s.Calls},
		{Name: "failure_rate", Value: s.FailureRate},
		{Name: "rejected", Value: s.Rejected},
	}}
}

var alarms = [...]registry.Alarm{ //nolint:gochecknoglobals // a constant
	Open: registry.Failing, HalfOpen: registry.Failing,
	ForcedOpen: registry.Notice, Disabled: registry.Notice, MetricsOnly: registry.Notice,
}

// verbs are the states that the verbs of a row set.
var verbs = map[string]State{"close": Closed, "force_open": ForcedOpen} //nolint:gochecknoglobals // a constant

// control applies a verb to a row.
func (b *Breaker) control(_ context.Context, verb, _ string) (n int, err error) {
	return 1, b.SetState(verbs[verb]) //nolint:contextcheck // it takes none
}

// rows returns the rows of the breakers that are not closed, the failing ones first.
func (g *Group) rows(context.Context) (rows []registry.Row, _ error) {
	all, _ := g.breakers()
	for _, b := range all {
		row := b.show(!g.hosts())
		if b == g.overflow.Load() { // no key selects it
			row.Key, row.Secret, row.Verbs = "(keys without room)", false, nil
		}
		if row.Alarm > registry.Calm {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b registry.Row) int {
		return cmp.Or(cmp.Compare(b.Alarm, a.Alarm), strings.Compare(a.Key, b.Key))
	})
	return rows[:min(len(rows), 10_000)], nil
}
