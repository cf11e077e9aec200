package main

import (
	"encoding/json"
	"fmt"

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
	var p program.Problems
	p.Add(err != nil, "%v", err)
	p.Add(s.note != "", "%s", s.note)
	p.Add(s.Served < int64(s.Calls), "%d of %d calls were not served", int64(s.Calls)-s.Served, s.Calls)
	p.Add(err == nil && s.first != nil, "%d failed, the first: %v", s.Failed, s.first)
	if s.figures != nil {
		p.Add(program.Value(s.Trips) > 0, "trips: %s", s.Trips)
		p.Add(program.Value(s.Escalations) > 0, "escalations: %s", s.Escalations)
	}
	s.OK, s.Problem = len(p) == 0, p.String()
	return s
}

// Rows calls row for each line of the text.
func (s summary) Rows(row func(name string, value any)) {
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
}

// Verdict returns the last line of the text.
func (s summary) Verdict() string {
	if s.OK {
		return "ok: all calls were served, and no limit was broken"
	}
	return "FAILED: " + s.Problem
}
