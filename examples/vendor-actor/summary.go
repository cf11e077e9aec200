package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/gresil/gresil/examples/internal/program"
)

// figures are those of the vendor, as it gave them.
type figures struct {
	Arrivals     json.Number `json:"arrivals,omitempty"`
	Unique       json.Number `json:"unique,omitempty"`
	Duplicates   json.Number `json:"duplicates,omitempty"`
	MostSliding  json.Number `json:"most_sliding,omitempty"`
	MostFixed    json.Number `json:"most_fixed,omitempty"`
	Seconds      json.Number `json:"seconds,omitempty"`
	Trips        json.Number `json:"trips,omitempty"`
	Escalations  json.Number `json:"escalations,omitempty"`
	WorstPenalty json.Number `json:"worst_penalty_s,omitempty"`
}

// A summary has the flags, the ends of the calls, and the figures of the vendor.
type summary struct {
	Algorithm string  `json:"algorithm"`
	Calls     int     `json:"calls"`
	Rate      float64 `json:"rate"`
	Capacity  int     `json:"capacity"`
	Limit     float64 `json:"limit"` // 0 is none
	Scale     float64 `json:"scale"`
	Served    int64   `json:"served"`
	Failed    int64   `json:"failed"`
	Judged    bool    `json:"judged"`
	*figures
	OK      bool   `json:"ok"`
	Problem string `json:"problem,omitempty"`

	first error  // of a call that failed
	note  string // why the load has ended early
	err   error  // why the run could not be made, or judged
}

func newSummary(cfg config) summary {
	return summary{Algorithm: cfg.algorithm, Calls: cfg.calls, Rate: cfg.rate, Capacity: cfg.capacity, Limit: cfg.limit, Scale: cfg.scale}
}

// fail returns s with its verdict. err, if there is one, is the reason why the run could not be
// made or judged.
func (s summary) fail(err error) summary {
	s.err = err
	var problems []string
	problem := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	problem(err != nil, "%v", err)
	problem(s.note != "", "%s", s.note)
	problem(s.Served < int64(s.Calls), "%d of %d calls were not served", int64(s.Calls)-s.Served, s.Calls)
	problem(err == nil && s.first != nil, "%d failed, the first: %v", s.Failed, s.first)
	if s.figures != nil {
		problem(positive(s.Trips), "trips: %s", s.Trips)
		problem(positive(s.Escalations), "escalations: %s", s.Escalations)
	}
	s.OK, s.Problem = len(problems) == 0, strings.Join(problems, "; ")
	return s
}

func positive(n json.Number) bool {
	x, err := n.Float64()
	return err == nil && x > 0
}

func (s summary) exitCode() int {
	switch {
	case s.err != nil:
		return 1
	case s.OK || s.Algorithm != "gresil":
		return 0
	}
	return 1
}

// print writes one JSON object, or text.
func (s summary) print(w io.Writer, asJSON bool) {
	if asJSON {
		program.PrintJSON(w, s)
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	row := func(name string, value any) { fmt.Fprintf(tw, "%s\t%v\n", name, value) }
	row("algorithm", s.Algorithm)
	row("calls", fmt.Sprintf("%d, %v a second of the vendor, scale %v", s.Calls, s.Rate, s.Scale))
	row("served", s.Served)
	row("failed", s.Failed)
	row("judged", s.Judged)
	if f := s.figures; f != nil {
		row("arrivals", f.Arrivals)
		row("unique", f.Unique)
		row("duplicates", f.Duplicates)
		row("most_sliding", f.MostSliding)
		row("most_fixed", f.MostFixed)
		row("seconds", f.Seconds)
		row("trips", f.Trips)
		row("escalations", f.Escalations)
		row("worst_penalty_s", f.WorstPenalty)
	}
	_ = tw.Flush() // to standard output
	switch {
	case s.OK:
		fmt.Fprintln(w, "ok: all calls were served, and no limit was broken")
	default:
		fmt.Fprintf(w, "FAILED: %s\n", s.Problem)
	}
}
