package gate

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

// rows returns a row for the vendor, one for each held key, and one for each key of which the vendor has said what is left.
func (g *Gate) rows(context.Context) ([]registry.Row, error) {
	s, held := g.Stats(), time.Time{}
	rows := make([]registry.Row, 1)
	for _, h := range g.Holds() {
		rows[0].Verbs = []string{"resume"} // on the row of the vendor, it ends all holds
		if h.Limit == "" && h.Key == "" {
			rows[0].Alarm, held = registry.Failing, h.Until
			continue
		}
		rows = append(rows, registry.Row{
			Key: h.row(), Secret: h.Key != "" && !g.hosts(), Alarm: registry.Notice, Verbs: rows[0].Verbs,
			Cells: []registry.Cell{
				{Name: "held_until", Value: h.Until},
				{Name: "limit", Value: h.Limit},
				{Name: "reason", Value: h.Reason},
				{Name: "left", Value: ""},
				{Name: "reset", Value: time.Time{}},
			},
		})
	}
	rows = append(rows, g.quotaRows(maxHolds)...)
	rows[0].Cells = []registry.Cell{
		{Name: "waiting", Value: s.Waiting},
		{Name: "in_flight", Value: s.InFlight},
		{Name: "max_in_flight", Value: s.MaxInFlight},
		{Name: "held_until", Value: held},
		{Name: "limited", Value: s.Limited},
		{Name: "rejected", Value: s.Rejected},
	}
	return rows, nil
}

// quotaRows returns rows of at most n keys that are not held, those that have the least first.
func (g *Gate) quotaRows(n int) (rows []registry.Row) {
	defer g.lock()()
	var all []*scope
	for _, s := range g.scopes {
		if _, held := s.held(g.now); !held && g.now.Before(s.quotaReset) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *scope) int { return cmp.Compare(a.quotaLeft, b.quotaLeft) })
	for _, s := range all[:min(n, len(all))] {
		rows = append(rows, registry.Row{
			Key: Hold{Limit: s.Limit, Key: s.Key.Key}.row(), Secret: s.Key.Key != "" && !g.hosts(),
			Cells: []registry.Cell{
				{Name: "held_until", Value: time.Time{}},
				{Name: "limit", Value: s.Limit},
				{Name: "reason", Value: ""},
				{Name: "left", Value: strconv.FormatInt(s.quotaLeft, 10)},
				{Name: "reset", Value: s.quotaReset},
			},
		})
	}
	return rows
}

func (h Hold) row() string { return h.Limit + ":" + h.Key }

// hosts reports whether the keys are hosts, which are not secret.
func (g *Gate) hosts() bool { return len(g.life.Load().Config.Limits) == 0 }

// control resumes a row.
func (g *Gate) control(ctx context.Context, _, row string) (n int, err error) {
	held := g.Holds()
	if row == "" {
		return len(held), g.Resume(ctx, "", "")
	}
	for _, h := range held {
		if row == h.row() {
			return 1, g.Resume(ctx, h.Limit, h.Key)
		}
	}
	return 0, nil // the hold is over
}
