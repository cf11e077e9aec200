package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/gresil/gresil/examples/internal/demo"
)

// A task counts the records and calls of the workers.
type task struct {
	order
	workers *demo.Workers

	keys    map[string]struct{} // of the calls whose records are served
	calls   int                 // that were answered with 200
	refused int
	served  int                   // records
	failed  int                   // records that were given up
	gaveUp  map[*demo.Process]int // by a worker
}

func newTask(c config, screen *demo.Screen) *task {
	t := &task{keys: map[string]struct{}{}, gaveUp: map[*demo.Process]int{}, order: order{config: c, Run: demo.NewRun()}}
	t.workers = &demo.Workers{Task: t, Name: "process", Number: c.Processes, Screen: screen}
	return t
}

// Order returns what a worker is told. One that replaces another adds no records.
func (t *task) Order(p *demo.Process) any {
	own := t.order
	own.Place, own.Added = p.Place, !t.workers.Start.IsZero()
	return own
}

// Input lets a worker make its calls.
func (t *task) Input(*demo.Process) any { return true }

// Line is a step of a worker.
func (t *task) Line(p *demo.Process, word string, n int, rest string) {
	switch word {
	case "called":
		t.calls++
	case "refused":
		t.refused++
	case "served":
		if _, again := t.keys[rest]; !again {
			t.keys[rest] = struct{}{}
			t.served += n
		}
	case "gave-up":
		t.failed += n - t.gaveUp[p]
		t.gaveUp[p] = n
	case "wrong":
		t.workers.Note(rest)
	}
}

// Ended reports whether the records of a worker that has ended are in Redis, all of them.
func (t *task) Ended(*demo.Process) bool { return t.Redis != "" && !t.workers.Start.IsZero() }

// Progress counts the records.
func (t *task) Progress() (done, total int, text string) {
	text = fmt.Sprintf("%d of %d records, %d failed; %d calls, %d refused", t.served, t.Records, t.failed, t.calls, t.refused)
	return t.served + t.failed, t.Records, text
}

// report makes all calls, and returns the vendor's view of them.
func (c config) report(ctx context.Context, own demo.Flags, screen *demo.Screen) *demo.Report {
	if c.Flags = own; c.Algorithm == demo.Control {
		c.Redis = ""
	}
	t := newTask(c, screen)
	r := &demo.Report{Algorithm: c.Algorithm}
	slack := slack(c.minute())
	calls, ideal := c.ideal()
	r.Flags("options", c.Options, "records", c.Records, "max_records", c.MaxRecords, "calls_per_minute", c.CallsPerMinute,
		"processes", c.Processes, "scale", c.Scale, "run", t.Run, "slack_ms", demo.Milliseconds(slack), "skew_ms", demo.Milliseconds(slack/2),
		"ideal_calls", calls, "ideal_seconds", demo.Round(ideal.Seconds()))
	r.Load(ctx, &t.Flags, screen, c.needsRedis(), t.workers.Work, "-scale", fmt.Sprint(c.Scale),
		"-max-records", strconv.Itoa(c.MaxRecords), "-calls-per-minute", strconv.Itoa(c.CallsPerMinute))
	r.Set("served", t.served, "Records that the vendor accepted, by its answers.")
	r.Set("failed", t.failed, "Records that were given up.")
	r.Set("lost", max(0, c.Records-t.served-t.failed), "Records that were neither served nor given up.")
	r.Set("calls", t.calls, fmt.Sprintf("Calls that the vendor answered with results; %d are enough.", calls))
	r.Set("refused", t.refused, "Calls that were over its limit.")
	r.Arrivals("minute", c.CallsPerMinute)
	r.Take("over", "over", "So many of them were over its limit, and refused.")
	r.Take("too_big", "too_big", "So many had too many records.")
	r.Take("bad", "bad", "So many were malformed.")
	r.Take("calls_by_option", "calls_by_option", "")
	r.Take("accepted", "records", "The vendor accepted this many records.")
	excused := t.workers.Report(r, ideal, c.minute(), slack/2)
	r.Problem(t.served < c.Records, "%d of %d records were not served", c.Records-t.served, c.Records)
	r.Problem(t.workers.Error != "" && t.served < c.Records, "%d failed, the first error: %s", t.failed, t.workers.Error)
	f, whole := r.Figures, t.workers.Deaths == 0
	r.Problem(f.Num("too_big") > 0, "%v calls were too big", f.Num("too_big"))
	r.Problem(f.Num("bad") > 0, "%v calls were malformed", f.Num("bad"))
	r.Problem(f.Num("duplicates") > 0 && whole, "%v records arrived again", f.Num("duplicates"))
	r.Problem(f["unique"] != nil && int(f.Num("unique")) < c.Records, "%v of %d records arrived", f.Num("unique"), c.Records)
	alone := int(f.Num("records")) == c.Records // otherwise the vendor has calls of other runs, or counts something of its own
	r.Problem(alone && whole && t.calls != calls, "%d calls were made, %d are enough", t.calls, calls)
	over, most := f.Num("over"), f.Num("most_sliding")
	r.Broken(over > 0, excused, "%v calls were refused", over)
	r.Broken(most > float64(c.CallsPerMinute), excused, "%v calls in a minute, the limit is %d", most, c.CallsPerMinute)
	return r
}
