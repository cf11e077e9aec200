package gate

import (
	"cmp"
	"maps"
	"slices"

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
