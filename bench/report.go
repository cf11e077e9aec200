package bench

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// A Result is a row of the table: how we do, how the best peer does that does the same
// work, and the floor. What there is none of is nil. Times are processor time. Where
// the name of the row ends in a unit in brackets, numbers are in that.
type Result struct {
	Row            string   `json:"row"`
	OursNs         *float64 `json:"ours_ns"`
	OursAllocs     *float64 `json:"ours_allocs"`
	BestPeer       *string  `json:"best_peer"`
	BestPeerNs     *float64 `json:"best_peer_ns"`
	BestPeerAllocs *float64 `json:"best_peer_allocs"`
	FloorNs        *float64 `json:"floor_ns"`
	// Ratio is ours to the best peer's; where more is better, the other way round.
	// So below 1 we are better.
	Ratio *float64 `json:"ratio"`
	// Disturbed reports whether other processes disturbed the measurement of ours or of
	// the best peer, so that the ratio says little.
	Disturbed bool `json:"disturbed,omitempty"`

	wallRatio *float64 // the same, of the time that passed
	others    string
}

// Results makes a Result of a row, or one for each of its units.
func Results(r Row, measured []Measurement) []Result {
	units := r.Units
	if units == nil {
		units = []Unit{{}}
	}
	results := make([]Result, len(units))
	for i, u := range units {
		results[i] = result(r, u, i, measured)
	}
	return results
}

func result(r Row, u Unit, i int, measured []Measurement) Result {
	res := Result{Row: r.Name}
	if u.Name != "" {
		res.Row += " [" + u.Name + "]"
	}
	better := func(a, b *Measurement) bool { return a.CPU[i] < b.CPU[i] != u.Higher }
	var us, best *Measurement
	var others []*Measurement
	bestWall := math.Inf(1)
	for j := range measured {
		switch m := &measured[j]; {
		case m.Role == Ours:
			us = m
		case m.Role == Floor && res.FloorNs == nil:
			res.FloorNs = &m.CPU[i]
		default:
			others = append(others, m)
			if m.Role == Peer && m.Note == "" {
				bestWall = min(bestWall, m.Wall)
				if best == nil || better(m, best) {
					best = m
				}
			}
		}
	}
	timed := r.Units == nil
	if us != nil {
		res.OursNs = &us.CPU[i]
		if timed {
			res.OursAllocs = &us.Allocs
		}
	}
	if best != nil {
		res.BestPeer, res.BestPeerNs = &best.Name, &best.CPU[i]
		if timed {
			res.BestPeerAllocs = &best.Allocs
		}
	}
	if us != nil && best != nil {
		a, b := us.CPU[i], best.CPU[i]
		if u.Higher {
			a, b = b, a
		}
		res.Ratio = quotient(a, b)
		if r.Parallel {
			res.wallRatio = quotient(us.Wall, bestWall)
		}
		res.Disturbed = us.disturbed(i) || best.disturbed(i)
	}
	res.others = list(others, best, timed, i, better)
	return res
}

func (m *Measurement) disturbed(i int) bool { return i < len(m.Disturbed) && m.Disturbed[i] }

// quotient returns a / b. With b = 0 it is 1 if a is 0 as well, and a otherwise.
func quotient(a, b float64) *float64 {
	q := a / b
	if b == 0 {
		q = 1 + a
	}
	return &q
}

// list names all but the best, the better ones first, and marks with a star those
// that do not do the same work.
func list(others []*Measurement, best *Measurement, timed bool, i int, better func(a, b *Measurement) bool) string {
	slices.SortStableFunc(others, func(a, b *Measurement) int {
		switch {
		case better(a, b):
			return -1
		case better(b, a):
			return 1
		}
		return 0
	})
	var names []string
	for _, m := range others {
		if m == best {
			continue
		}
		mark, allocs := "", ""
		if m.Note != "" {
			mark = "*"
		}
		if timed && m.Allocs >= 0.05 {
			allocs = fmt.Sprintf(" (%s)", number(&m.Allocs))
		}
		names = append(names, fmt.Sprintf("%s%s %s%s", m.Name, mark, number(&m.CPU[i]), allocs))
	}
	return strings.Join(names, "; ")
}

// number is v with three digits or so, or a dash.
func number(v *float64) string {
	switch {
	case v == nil:
		return "–"
	case math.Abs(*v) >= 100 || math.Abs(*v-math.Round(*v)) < 0.005:
		return fmt.Sprintf("%.0f", *v)
	case math.Abs(*v) >= 10:
		return fmt.Sprintf("%.1f", *v)
	}
	return fmt.Sprintf("%.2f", *v)
}

func text(v *string) string {
	if v == nil {
		return "–"
	}
	return *v
}

// WriteTable writes results as a table in Markdown.
func WriteTable(w io.Writer, results []Result) {
	rows := [][]string{{"row", "ours", "allocs", "best peer", "its", "allocs", "floor", "ours/best", "ours/floor", "by wall", "others"}}
	rows = append(rows, []string{"---", "--:", "--:", "---", "--:", "--:", "--:", "--:", "--:", "--:", "---"})
	for _, r := range results {
		var toFloor *float64
		if r.OursNs != nil && r.FloorNs != nil && *r.FloorNs > 0 {
			toFloor = quotient(*r.OursNs, *r.FloorNs)
		}
		doubt := func(ratio *float64) string {
			if r.Disturbed && ratio != nil {
				return number(ratio) + "?"
			}
			return number(ratio)
		}
		rows = append(rows, []string{
			r.Row, number(r.OursNs), number(r.OursAllocs), text(r.BestPeer), number(r.BestPeerNs), number(r.BestPeerAllocs),
			number(r.FloorNs), doubt(r.Ratio), number(toFloor), doubt(r.wallRatio), r.others,
		})
	}
	for _, r := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(r, " | "))
	}
	if slices.ContainsFunc(results, func(r Result) bool { return r.Disturbed }) {
		fmt.Fprint(w, "\n?: disturbed, also when measured again. Other processes had the processors, or the samples differ by more than a factor of two.\n")
	}
}

// WriteNotes writes how the peers with a star differ.
func WriteNotes(w io.Writer, rows []Row) {
	var seen []string
	for _, r := range rows {
		for _, s := range r.Subjects {
			if line := "* " + s.Name + ": " + s.Note; s.Note != "" && !slices.Contains(seen, line) {
				seen = append(seen, line)
				fmt.Fprintln(w, line)
			}
		}
	}
}
