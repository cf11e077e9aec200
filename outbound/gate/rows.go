package gate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gresil/gresil/internal/gatestore"
	"github.com/gresil/gresil/internal/registry"
)

// rows returns a row for the vendor, one for each held key, and one for each key that is used or of which the vendor has said what is left.
func (g *Gate) rows(context.Context) ([]registry.Row, error) {
	s, held := g.Stats(), time.Time{}
	rows := make([]registry.Row, 1)
	for _, h := range g.Holds() {
		rows[0].Verbs = []string{"resume"} // on the row of the vendor, it ends all holds
		if h.Limit == "" && h.Key == "" {
			rows[0].Alarm, held = registry.Failing, h.Until
			continue
		}
		row := g.row(h, used{})
		row.Alarm, row.Verbs = registry.Notice, rows[0].Verbs
		rows = append(rows, row)
	}
	rows = append(rows, g.usedRows(maxHolds)...)
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

func (g *Gate) row(h Hold, u used) registry.Row {
	of := ""
	if u.n > 0 {
		of = fmt.Sprintf("%d of %d", u.n, u.burst)
	}
	return registry.Row{
		Key: h.row(), Secret: h.Key != "" && !g.hosts(),
		Cells: []registry.Cell{
			{Name: "held_until", Value: h.Until},
			{Name: "limit", Value: h.Limit},
			{Name: "used", Value: of},
			{Name: "reason", Value: h.Reason},
			{Name: "left", Value: u.left},
			{Name: "reset", Value: u.reset},
		},
	}
}

// A used is a key of which something is used, or the vendor has said what is left.
type used struct {
	gatestore.Key

	n, burst, rank int64
	left           string
	reset          time.Time
}

// usedRows returns rows of at most n keys that are not held: first those of which the vendor has said what is left, the least first, then
// the most used.
func (g *Gate) usedRows(n int) (rows []registry.Row) {
	all := g.used()
	slices.SortFunc(all, func(a, b used) int { return cmp.Compare(a.rank, b.rank) })
	for _, u := range all[:min(n, len(all))] {
		rows = append(rows, g.row(Hold{Limit: u.Limit, Key: u.Key.Key}, u))
	}
	return rows
}

func (g *Gate) used() (all []used) {
	defer g.lock()()
	for _, s := range g.scopes {
		u := used{Key: s.Key}
		if s.limit != nil && s.N > 0 && g.shared == nil { // otherwise the Store knows it
			u.n, u.burst = max(0, int64((s.tail.Sub(g.now)+s.spacing-1)/s.spacing)), s.burst
		}
		u.rank = math.MaxInt64 - u.n
		told := g.now.Before(s.quotaReset)
		if told {
			u.rank, u.left, u.reset = s.quotaLeft, strconv.FormatInt(s.quotaLeft, 10), s.quotaReset
		}
		if _, held := s.held(g.now); !held && (told || u.n > 0) {
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
