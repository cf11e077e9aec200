package gate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

// rows returns a row for the vendor, one for each held key, and then one for each of at most 1,000 other keys: first those of which the vendor
// has said what is left, the least first, then the most used.
func (g *Gate) rows(context.Context) ([]registry.Row, error) {
	s, held := g.Stats(), time.Time{}
	rows := make([]registry.Row, 1)
	for _, h := range g.Holds() {
		rows[0].Verbs = []string{"resume"} // on the row of the vendor, it ends all holds
		if h.Limit == "" && h.Key == "" {
			rows[0].Alarm, held = registry.Failing, h.Until
			continue
		}
		row := g.row(used{Hold: h})
		row.Alarm, row.Verbs = registry.Notice, rows[0].Verbs
		rows = append(rows, row)
	}
	all := g.used()
	slices.SortFunc(all, func(a, b used) int { return cmp.Compare(a.rank, b.rank) })
	for _, u := range all[:min(maxHolds, len(all))] {
		rows = append(rows, g.row(u))
	}
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

func (g *Gate) row(u used) registry.Row {
	return registry.Row{
		Key: u.row(), Secret: u.Key != "" && !g.hosts(),
		Cells: []registry.Cell{
			{Name: "held_until", Value: u.Until},
			{Name: "limit", Value: u.Limit},
			{Name: "used", Value: u.of},
			{Name: "reason", Value: u.Reason},
			{Name: "left", Value: u.left},
			{Name: "reset", Value: u.reset},
		},
	}
}

// A used is a key that is held, of which something is used, or the vendor has said what is left.
type used struct {
	Hold

	rank     int64
	of, left string
	reset    time.Time
}

// used returns the keys that are not held.
func (g *Gate) used() (all []used) {
	defer g.lock()()
	for of, s := range g.scopes {
		if _, held := s.held(g.now); held {
			continue
		}
		u, n := used{Hold: Hold{Limit: of.Limit, Key: of.Key}}, int64(0)
		if s.spacing > 0 && g.shared == nil { // otherwise the Store knows it
			n = max(0, int64((s.tail.Sub(g.now)+s.spacing-1)/s.spacing))
		}
		if u.rank = math.MaxInt64 - n; n > 0 {
			u.of = fmt.Sprintf("%d of %d", n, s.burst)
		}
		if g.now.Before(s.quotaReset) {
			u.rank, u.left, u.reset = s.quotaLeft, strconv.FormatInt(s.quotaLeft, 10), s.quotaReset
		}
		if u.rank < math.MaxInt64 {
			all = append(all, u)
		}
	}
	return all
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
