package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// figures are those of the vendor, as it gave them.
type figures struct {
	Arrivals    json.Number `json:"arrivals,omitempty"`
	Unique      json.Number `json:"unique,omitempty"`
	Duplicates  json.Number `json:"duplicates,omitempty"`
	MostSliding json.Number `json:"most_sliding,omitempty"`
	MostFixed   json.Number `json:"most_fixed,omitempty"`
	Seconds     json.Number `json:"seconds,omitempty"`
	Stall       json.Number `json:"stall_ms,omitempty"`
}

// A summary has the flags, the ends of the calls, and the figures of the vendor.
type summary struct {
	Algorithm string   `json:"algorithm"`
	Engine    string   `json:"engine"`
	Campaigns int      `json:"campaigns"`
	Calls     int      `json:"calls"` // of each campaign
	Workers   int      `json:"workers"`
	CPS       int      `json:"cps"`
	Kill      int      `json:"kill"`
	Run       string   `json:"run"` // with which the names of its campaigns begin
	Served    int      `json:"served"`
	Failed    int      `json:"failed"`
	Deaths    int      `json:"deaths"`    // of workers
	InFlight  []string `json:"in_flight"` // the keys of calls that were, at deaths
	Lost      int      `json:"lost"`      // of these, in flight at two deaths
	Elapsed   float64  `json:"elapsed_seconds"`
	Ideal     float64  `json:"ideal_seconds"`
	WorstHalf float64  `json:"worst_half"` // the parts that were served at half time, 0 to 1
	BestHalf  float64  `json:"best_half"`
	Checks    float64  `json:"checks_per_call"`
	Runs      float64  `json:"runs_per_call"` // of the handlers of jobs
	Retried   int      `json:"retried"`       // of these, not the first attempt
	Stale     uint64   `json:"stale"`         // permits that were not used
	RedisCPU  float64  `json:"redis_cpu_percent"`
	Slack     float64  `json:"slack_ms"`
	Skew      float64  `json:"skew_ms"`
	Judged    bool     `json:"judged"`
	*figures
	Stall   float64 `json:"stall_ms"` // the longest of the workers and the vendor
	Void    bool    `json:"void"`
	OK      bool    `json:"ok"`
	Problem string  `json:"problem,omitempty"`

	first string // the error of a call that failed
	note  string // why the run has ended early
	err   error  // why the run could not be made, or judged
}

func newSummary(cfg config) summary {
	return summary{
		Algorithm: cfg.algorithm, Engine: cfg.engine, Campaigns: cfg.campaigns, Calls: cfg.calls, Workers: cfg.workers, CPS: cfg.cps, Kill: cfg.kill,
		Run: program.NewRun(), InFlight: []string{}, Ideal: cfg.ideal().Seconds(), Slack: program.Milliseconds(slack), Skew: program.Milliseconds(skew),
	}
}

// count returns s with the figures of the crew.
func (s summary) count(c *crew) summary {
	s.Served, s.Failed, s.Deaths, s.Lost, s.first = c.served, c.failed, c.deaths, c.lost, c.first
	for _, n := range c.inFlight {
		s.InFlight = append(s.InFlight, c.key(n))
	}
	if len(c.ends) > 0 {
		s.Elapsed = program.Round(c.ends[len(c.ends)-1].at.Seconds())
	}
	s.WorstHalf, s.BestHalf = c.halfTime()
	var checks uint64
	var stall time.Duration
	for _, m := range c.all {
		checks += m.checks
		s.Stale += m.stale
		stall = max(stall, m.stall)
	}
	s.Stall, s.Retried = program.Milliseconds(stall), c.retried
	if c.served > 0 {
		s.Checks = program.Round(float64(checks) / float64(c.served))
		s.Runs = program.Round(float64(c.runs) / float64(c.served))
	}
	return s
}

// fail returns s with its verdict. err, if there is one, is the reason why the run could not be made
// or judged.
func (s summary) fail(err error) summary {
	s.err = err
	s.RedisCPU = program.Round(s.RedisCPU)
	var p program.Problems
	left := s.Campaigns*s.Calls - s.Served
	p.Add(err != nil, "%v", err)
	p.Add(s.note != "", "%s", s.note)
	p.Add(left > s.Lost, "%d of %d calls were not served", left, s.Campaigns*s.Calls)
	p.Add(s.first != "", "%d failed, the first: %s", s.Failed, s.first)
	if s.figures != nil {
		s.Stall = max(s.Stall, program.Value(s.figures.Stall))
		fixed, sliding := program.Value(s.MostFixed) > float64(s.CPS), program.Value(s.MostSliding) > float64(s.CPS)
		late := s.Stall > s.Skew && s.Elapsed > s.Ideal-1 // no stall makes a run faster than the limit
		s.Void = s.Algorithm == "gresil" && (fixed || sliding) && len(p) == 0 && late
		p.Add(fixed, "%s calls in a second of the clock, the limit is %d", s.MostFixed, s.CPS)
		p.Add(sliding, "%s calls in a second, the limit is %d", s.MostSliding, s.CPS)
	}
	s.OK, s.Problem = len(p) == 0, p.String()
	return s
}

// Rows calls row for each line of the text.
func (s summary) Rows(row func(name string, value any)) {
	row("algorithm", s.Algorithm)
	row("engine", s.Engine)
	row("calls", fmt.Sprintf("%d of each of %d campaigns, from %d workers, %d a second", s.Calls, s.Campaigns, s.Workers, s.CPS))
	row("served", s.Served)
	row("failed", s.Failed)
	row("deaths", s.Deaths)
	row("in_flight", strings.TrimSpace(fmt.Sprint(len(s.InFlight), " ", strings.Join(s.InFlight, " "))))
	row("lost", s.Lost)
	row("judged", s.Judged)
	if f := s.figures; f != nil {
		row("arrivals", f.Arrivals)
		row("unique", f.Unique)
		row("duplicates", f.Duplicates)
		row("most_fixed", f.MostFixed)
		row("most_sliding", f.MostSliding)
		row("seconds", f.Seconds)
	}
	row("elapsed_seconds", fmt.Sprintf("%v, ideal %v", s.Elapsed, s.Ideal))
	row("half_time", fmt.Sprintf("%.0f %% of the worst campaign, %.0f %% of the best", 100*s.WorstHalf, 100*s.BestHalf))
	row("checks_per_call", s.Checks)
	row("runs_per_call", s.Runs)
	row("retried", s.Retried)
	row("stale", s.Stale)
	row("redis_cpu_percent", s.RedisCPU)
	row("stall_ms", fmt.Sprintf("%v, slack %v, skew %v", s.Stall, s.Slack, s.Skew))
}

// Verdict returns the last line of the text.
func (s summary) Verdict() string {
	switch {
	case s.OK:
		return "ok: all calls were served, and no second was above the limit"
	case s.Void:
		return fmt.Sprintf("VOID: %s, and the harness stalled for longer than the skew", s.Problem)
	}
	return "FAILED: " + s.Problem
}
