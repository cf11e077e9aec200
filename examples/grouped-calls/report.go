package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/gresil/gresil/examples/internal/demo"
)

// A task counts the records and calls of the workers.
type task struct {
	order
	crew *demo.Crew

	keys    map[string]struct{} // of the calls whose records are served
	calls   int                 // that were answered with 200
	refused int
	served  int // records
	failed  int // records that were given up, by the control
	gaveUp  map[*demo.Member]int
}

const (
	silenceTime = 5 * time.Second // for which the vendor can be out of reach

	// A run goes on for so long without a record that is accepted: minutes of the vendor, and a time of our own; with
	// gresil, leases too. A control could go on for hours.
	patience      = 3
	leastPatience = 5 * time.Second
)

func newTask(c config, screen *demo.Screen) *task {
	t := &task{keys: map[string]struct{}{}, gaveUp: map[*demo.Member]int{}, order: order{config: c, Run: demo.NewRun()}}
	long := max(leastPatience, patience*c.minute())
	if c.Algorithm != demo.Control {
		long = max(long, 2*leaseTime)
	}
	t.crew = &demo.Crew{
		Task: t, Word: "process", Size: c.Processes, Screen: screen, Silence: silenceTime, Patience: long,
		Stalled: fmt.Errorf("%w, as no record was accepted for %d minutes of the vendor", demo.ErrStalled, patience),
	}
	return t
}

// Order returns what a worker is told. One that replaces another adds no records.
func (t *task) Order(m *demo.Member) any {
	own := t.order
	own.Worker, own.Added = m.Place, m.Again
	return own
}

// Feed lets a worker make its calls.
func (t *task) Feed(*demo.Member) string { return "go\n" }

// Hear is a step of a worker.
func (t *task) Hear(m *demo.Member, word string, n int, rest string) {
	switch word {
	case "called":
		t.calls++
		t.crew.Right()
	case "refused":
		t.refused++
		t.crew.Right()
	case "served":
		if _, again := t.keys[rest]; !again {
			t.keys[rest] = struct{}{}
			t.served += n
		}
	case "failed":
		t.failed += n
		t.crew.Note(rest)
	case "gave-up":
		t.gaveUp[m] = n
	case "bad":
		t.crew.Note(rest)
	case "wrong":
		t.crew.Wrong(rest)
	}
}

// Fold reports whether the records of a worker that has ended are in Redis, all of them.
func (t *task) Fold(*demo.Member) bool { return t.Redis != "" && !t.crew.Start.IsZero() }

// givenUp returns the number of records that have failed.
func (t *task) givenUp() int {
	all := t.failed
	for _, n := range t.gaveUp {
		all += n
	}
	return all
}

// Progress counts the records.
func (t *task) Progress() (done, total int, text string) {
	failed := t.givenUp()
	text = fmt.Sprintf("%d of %d records, %d failed; %d calls, %d refused", t.served, t.Records, failed, t.calls, t.refused)
	return t.served + failed, t.Records, text
}

// report makes all calls, and returns the vendor's view of them.
func (c config) report(ctx context.Context, f demo.Flags, screen *demo.Screen) *demo.Report {
	if c.Flags = f; f.Algorithm == demo.Control {
		c.Redis = ""
	}
	t := newTask(c, screen)
	r := &demo.Report{Algorithm: c.Algorithm}
	slack, skew := demo.Milliseconds(slack(c.minute())), demo.Milliseconds(skew(c.minute()))
	r.Flags("options", c.Options, "records", c.Records, "max_records", c.MaxRecords, "calls_per_minute", c.CallsPerMinute,
		"processes", c.Processes, "scale", c.Scale, "run", t.Run, "slack_ms", slack, "skew_ms", skew)
	serve := t.Serve(c.needsRedis(), "-scale", fmt.Sprint(c.Scale),
		"-max-records", strconv.Itoa(c.MaxRecords), "-calls-per-minute", strconv.Itoa(c.CallsPerMinute))
	r.Load(ctx, &t.Flags, screen, serve, func(ctx context.Context, _ context.CancelCauseFunc) error { return t.crew.Work(ctx) })
	elapsed := 0.0
	if !t.crew.Start.IsZero() {
		elapsed = demo.Round(t.crew.Last.Sub(t.crew.Start).Seconds())
	}
	stall := max(demo.Milliseconds(t.crew.Stall), r.Figures.Num("stall_ms"))
	each, calls := c.ideal()
	ideal := demo.Round(c.idealSeconds())
	r.Flags("ideal_calls", calls, "ideal_seconds", ideal)
	r.Set("served", t.served, "Records that the vendor accepted, by its answers.")
	r.Set("failed", t.givenUp(), "Records that were given up.")
	r.Set("lost", max(0, c.Records-t.served-t.givenUp()), "Records that were neither served nor given up.")
	r.Set("calls", t.calls, fmt.Sprintf("Calls that the vendor answered with results; %d are enough.", calls))
	r.Set("refused", t.refused, "Calls that were over its limit.")
	r.Set("deaths", t.crew.Deaths, "Processes that have ended on the way.")
	r.Arrivals("minute", c.CallsPerMinute)
	r.Take("over", "over", "So many of them were over its limit, and refused.")
	r.Take("too_big", "too_big", "So many had too many records.")
	r.Take("bad", "bad", "So many were malformed.")
	r.Take("calls_by_option", "calls_by_option", "")
	r.Take("accepted", "records", "The vendor accepted this many records.")
	r.Set("elapsed_seconds", elapsed, fmt.Sprintf("From the start to the last answer; at the limit, it takes %v.", ideal))
	r.Set("stall_ms", stall, fmt.Sprintf("A process or a call was late by this much at most; %v are allowed for.", skew))
	r.Set("void", &r.Void, "")
	r.Problem(t.served < c.Records, "%d of %d records were not served", c.Records-t.served, c.Records)
	r.Problem(t.crew.First != "" && t.served < c.Records, "%d failed, the first error: %s", t.givenUp(), t.crew.First)
	if r.Figures != nil {
		c.judge(r, t.crew.Deaths, each)
	}
	late := demo.Excused(stall, skew, elapsed, ideal, c.minute().Seconds())
	over, most := r.Figures.Num("over"), r.Figures.Num("most_sliding")
	r.Broken(over > 0, late, "%v calls were refused", over)
	r.Broken(most > float64(c.CallsPerMinute), late, "%v calls in a minute, the limit is %d", most, c.CallsPerMinute)
	return r
}

// judge adds the problems that the vendor saw, apart from its limit.
func (c config) judge(r *demo.Report, deaths int, ideal func(option int) int) {
	f := r.Figures
	r.Problem(f.Num("too_big") > 0, "%v calls were too big", f.Num("too_big"))
	r.Problem(f.Num("bad") > 0, "%v calls were malformed", f.Num("bad"))
	r.Problem(f.Num("duplicates") > 0 && deaths == 0, "%v records arrived again", f.Num("duplicates"))
	r.Problem(f["unique"] != nil && int(f.Num("unique")) < c.Records, "%v of %d records arrived", f.Num("unique"), c.Records)
	var calls map[string]int // of something else if the vendor counts something else
	if int(f.Num("records")) != c.Records || deaths > 0 || json.Unmarshal(f["calls_by_option"], &calls) != nil {
		return // it has calls of other runs, or counts something of its own
	}
	wrong, first := 0, ""
	for i := range c.Options {
		name := optionName(i)
		if n, need := calls[name], ideal(i); n != need {
			if wrong++; wrong == 1 {
				first = fmt.Sprintf("%d of %s instead of %d", n, name, need)
			}
		}
	}
	r.Problem(wrong > 0, "%d options have another number of calls than they need, the first: %s", wrong, first)
}
