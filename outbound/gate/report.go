package gate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

const maxReasons = 32 // that are counted apart

// Stats are the counters of a Gate in this process, and its present state.
type Stats struct {
	Sent     uint64 // attempts
	Limited  uint64 // those attempts that the vendor refused because of a limit
	Rejected uint64 // calls that were not made, such as those that would have waited too long, or whose context ended
	Holds    uint64 // that began, or were extended by a second or more

	Waiting     int // calls
	InFlight    int // attempts; with a Store those of all processes, as far as this one knows
	MaxInFlight int // in force: Config.InFlight, or less after holds
	Connections int // of all pools

	evicted, overflowed, storeErrors uint64 // for figures
}

// Stats returns the counts so far, and the present state.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.Waiting = g.waiting[interactive] + g.waiting[background]
	s.InFlight, s.MaxInFlight = g.places()
	for _, p := range g.pools {
		s.Connections += p.used
	}
	return s
}

// refusal counts a refusal by its reason.
func (g *Gate) refusal(reason string) {
	reason = cmp.Or(reason, "limit")
	if _, ok := g.refusals[reason]; !ok && len(g.refusals) >= maxReasons {
		reason = "other"
	}
	g.refusals[reason]++
}

func (g *Gate) figures() (f registry.Figures) {
	s := g.Stats()
	g.mu.Lock()
	refusals := maps.Clone(g.refusals)
	g.mu.Unlock()
	for _, reason := range slices.Sorted(maps.Keys(refusals)) {
		f.Count("refusals_total", "Attempts that the vendor refused, also for good, by Signal.Reason; limit if it is empty.", refusals[reason], "reason", reason)
	}
	f.Counts("attempts_total", "Attempts that were sent, by whether the vendor refused them because of a limit.", "result", "passed", s.Sent-s.Limited, "limited", s.Limited)
	f.Count("rejected_total", "Calls that were not made: their wait was too long, their context has ended, too many calls were waiting, or the gate was closed.", s.Rejected)
	f.Count("holds_total", "Holds that began, or were extended by a second or more.", s.Holds)
	f.Add("held", "Keys that are held now.", float64(len(g.holds())))
	f.Add("waiting", "Calls that wait now.", float64(s.Waiting))
	f.Add("in_flight", "Attempts in flight now.", float64(s.InFlight))
	f.Add("in_flight_limit", "Attempts that can be in flight now; 0 is no limit.", float64(s.MaxInFlight))
	f.Add("connections", "Open connections of the pools.", float64(s.Connections))
	for i, class := range []string{"interactive", "background"} {
		f.Histogram("wait_seconds", "Waits of attempts for their admission, by class.", &g.waits[i], "class", class)
	}
	f.Warn("keys_evicted_total", "Keys whose usage was charged to other keys, as there were too many.",
		s.evicted, "keys evicted: too many are in use")
	f.Warn("holds_widened_total", "Holds of a key that became holds of the vendor, as there were too many.",
		s.overflowed, "the whole vendor is held: too many keys are held")
	f.Count("store_errors_total", "Requests to the Store that have failed.", s.storeErrors)
	return f
}

// rows returns a row for the vendor, one for each held key, and then one for each of at most 1,000 other keys: first those of which the
// vendor has said what is left, the least first, then the most used.
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
