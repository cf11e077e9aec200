package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// figures are those of the vendor, as it gave them.
type figures struct {
	Arrivals    json.Number     `json:"arrivals,omitempty"`
	Over        json.Number     `json:"over,omitempty"`
	TooBig      json.Number     `json:"too_big,omitempty"`
	Bad         json.Number     `json:"bad,omitempty"`
	Calls       json.RawMessage `json:"calls_by_option,omitempty"`
	Records     json.Number     `json:"records,omitempty"` // in a summary, they are accepted
	Unique      json.Number     `json:"unique,omitempty"`
	Duplicates  json.Number     `json:"duplicates,omitempty"`
	MostSliding json.Number     `json:"most_sliding,omitempty"`
	MostFixed   json.Number     `json:"most_fixed,omitempty"`
	Seconds     json.Number     `json:"seconds,omitempty"`
	Stall       json.Number     `json:"stall_ms,omitempty"`
}

// A summary has the flags, the ends of the records, and the figures of the vendor.
type summary struct {
	Algorithm      string      `json:"algorithm"`
	Options        int         `json:"options"`
	Records        int         `json:"records"` // of all options
	MaxRecords     int         `json:"max_records"`
	CallsPerMinute int         `json:"calls_per_minute"`
	Processes      int         `json:"processes"`
	Scale          float64     `json:"scale"`
	Run            string      `json:"run"`
	Served         int         `json:"served"` // records that the vendor accepted, by its answers
	Failed         int         `json:"failed"` // records that were given up
	Lost           int         `json:"lost"`   // records that were not served and not given up
	Calls          int         `json:"calls"`  // that the vendor answered with results
	IdealCalls     int         `json:"ideal_calls"`
	Refused        int         `json:"refused"` // calls
	Deaths         int         `json:"deaths"`  // of processes
	Elapsed        float64     `json:"elapsed_seconds"`
	Ideal          float64     `json:"ideal_seconds"`
	Slack          float64     `json:"slack_ms"`
	Skew           float64     `json:"skew_ms"`
	Judged         bool        `json:"judged"`
	Accepted       json.Number `json:"accepted,omitempty"` // records, by the figures
	*figures
	Stall   float64 `json:"stall_ms"` // the longest of the processes and the vendor
	Void    bool    `json:"void"`
	OK      bool    `json:"ok"`
	Problem string  `json:"problem,omitempty"`

	cfg   config
	first string // the error of a record or call that failed
	note  string // why the run has ended early
	err   error  // why the run could not be made, or judged
}

func newSummary(cfg config) summary {
	return summary{
		Algorithm: cfg.algorithm, Options: cfg.options, Records: cfg.records, MaxRecords: cfg.maxRecords,
		CallsPerMinute: cfg.callsPerMinute, Processes: cfg.processes, Scale: cfg.scale, Run: program.NewRun(), Lost: cfg.records,
		IdealCalls: cfg.calls(), Ideal: program.Round(cfg.ideal().Seconds()), Slack: program.Milliseconds(slack(cfg.minute())), Skew: program.Milliseconds(skew(cfg.minute())), cfg: cfg,
	}
}

// count returns s with the figures of the crew.
func (s summary) count(c *crew) summary {
	s.Served, s.Failed, s.Calls, s.Refused, s.first = c.served, c.failed, c.calls, c.refused, c.first
	s.Deaths = c.deaths
	s.Lost = max(0, s.Records-s.Served-s.Failed)
	if !c.start.IsZero() {
		s.Elapsed = program.Round(c.last.Sub(c.start).Seconds())
	}
	s.Stall = program.Milliseconds(c.stall)
	return s
}

// fail returns s with its verdict. err, if there is one, is the reason why the run could not be made
// or judged.
func (s summary) fail(err error) summary {
	s.err = err
	var p program.Problems
	p.Add(err != nil, "%v", err)
	p.Add(s.note != "", "%s", s.note)
	p.Add(s.Served < s.Records, "%d of %d records were not served", s.Records-s.Served, s.Records)
	p.Add(s.first != "" && s.Served < s.Records, "%d failed, the first error: %s", s.Failed, s.first)
	if s.figures != nil {
		s = s.judge(&p)
	}
	s.OK, s.Problem = len(p) == 0, p.String()
	return s
}

// judge adds the problems that the vendor saw.
func (s summary) judge(p *program.Problems) summary {
	f := s.figures
	s.Accepted = f.Records
	s.Stall = max(s.Stall, program.Value(f.Stall))
	p.Add(program.Value(f.TooBig) > 0, "%s calls were too big", f.TooBig)
	p.Add(program.Value(f.Bad) > 0, "%s calls were malformed", f.Bad)
	p.Add(program.Value(f.Duplicates) > 0 && s.Deaths == 0, "%s records arrived again", f.Duplicates)
	p.Add(f.Unique != "" && program.Value(f.Unique) < float64(s.Records), "%s of %d records arrived", f.Unique, s.Records)
	if program.Value(f.Records) == float64(s.Records) && s.Deaths == 0 { // otherwise it has calls of other runs
		s.compare(p)
	}
	late := s.Stall > s.Skew && s.Elapsed > s.Ideal-s.cfg.minute().Seconds() // no stall makes a run faster than the limit
	over, sliding := program.Value(f.Over) > 0, program.Value(f.MostSliding) > float64(s.CallsPerMinute)
	s.Void = s.Algorithm == "gresil" && (over || sliding) && len(*p) == 0 && late
	p.Add(over, "%s calls were refused", f.Over)
	p.Add(sliding, "%s calls in a minute, the limit is %d", f.MostSliding, s.CallsPerMinute)
	return s
}

// compare adds the options with more calls than they need, or fewer.
func (s summary) compare(p *program.Problems) {
	var calls map[string]int
	if json.Unmarshal(s.figures.Calls, &calls) != nil {
		return // it counts nothing, or something of its own
	}
	wrong := 0
	first := ""
	for i := range s.Options {
		name := optionName(i)
		if n, need := calls[name], s.cfg.callsOf(i); n != need {
			if wrong++; wrong == 1 {
				first = fmt.Sprintf("%d of %s instead of %d", n, name, need)
			}
		}
	}
	p.Add(wrong > 0, "%d options have another number of calls than they need, the first: %s", wrong, first)
}

// Rows calls row for each line of the text.
func (s summary) Rows(row func(name string, value any)) {
	row("algorithm", s.Algorithm)
	row("records", fmt.Sprintf("%d in %d options, from %d processes, %d a call", s.Records, s.Options, s.Processes, s.MaxRecords))
	row("limit", fmt.Sprintf("%d calls in %v", s.CallsPerMinute, s.cfg.minute().Round(time.Millisecond)))
	row("served", s.Served)
	row("failed", s.Failed)
	row("lost", s.Lost)
	row("calls", fmt.Sprintf("%d, ideal %d", s.Calls, s.IdealCalls))
	row("refused", s.Refused)
	row("deaths", s.Deaths)
	row("judged", s.Judged)
	if f := s.figures; f != nil {
		row("arrivals", f.Arrivals)
		row("over", f.Over)
		row("too_big", f.TooBig)
		row("bad", f.Bad)
		row("accepted", s.Accepted)
		row("unique", f.Unique)
		row("duplicates", f.Duplicates)
		row("most_sliding", f.MostSliding)
		row("most_fixed", f.MostFixed)
		row("seconds", f.Seconds)
	}
	row("elapsed_seconds", fmt.Sprintf("%v, ideal %v", s.Elapsed, s.Ideal))
	row("stall_ms", fmt.Sprintf("%v, slack %v, skew %v", s.Stall, s.Slack, s.Skew))
}

// Verdict returns the last line of the text.
func (s summary) Verdict() string {
	switch {
	case s.OK:
		return "ok: all records were served by the smallest number of calls, and no minute was above the limit"
	case s.Void:
		return fmt.Sprintf("VOID: %s, and the harness stalled for longer than the skew", s.Problem)
	}
	return "FAILED: " + s.Problem
}
