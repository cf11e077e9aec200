package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// A Report is what a run prints at its end: one JSON object, or a column of a table.
type Report struct {
	Algorithm string
	Figures   Figures // of the vendor; nil if it is not judged
	Void      bool    // the limit was broken because the machine stalled

	values   map[string]any
	lines    []line
	problems []string
	broken   bool // the vendor saw that its limit was broken
	err      error
}

// A line of the table has a sentence.
type line struct{ name, sentence string }

// Set sets a field. One without a sentence is for JSON alone.
func (r *Report) Set(name string, value any, sentence string) {
	if r.values == nil {
		r.values = map[string]any{}
	}
	r.values[name] = value
	if sentence != "" {
		r.lines = append(r.lines, line{name, sentence})
	}
}

// Flags sets fields for JSON alone, by names and values in turn.
func (r *Report) Flags(pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		r.Set(fmt.Sprint(pairs[i]), pairs[i+1], "")
	}
}

// Take sets a field to a figure of the vendor, if there is one.
func (r *Report) Take(name, figure, sentence string) {
	if value, ok := r.Figures[figure]; ok {
		r.Set(name, value, sentence)
	}
}

// Arrivals takes the figures that all vendors have, of calls or other things. A period has a limit of calls.
func (r *Report) Arrivals(period string, limit int) {
	r.Take("arrivals", "arrivals", "The vendor saw this many calls, refused ones included.")
	r.Take("unique", "unique", "So many different ones were there.")
	r.Take("duplicates", "duplicates", "So many had been there before.")
	r.Take("most_sliding", "most_sliding", fmt.Sprintf("The fullest %s of all had this many calls; %d are permitted.", period, limit))
	r.Take("most_fixed", "most_fixed", fmt.Sprintf("The fullest %s of the clock had this many.", period))
	r.Take("seconds", "seconds", "From the first arrival to the last.")
}

// Problem adds a reason why a run is not ok, if it is one.
func (r *Report) Problem(bad bool, format string, args ...any) {
	if bad {
		r.problems = append(r.problems, fmt.Sprintf(format, args...))
	}
}

// Broken adds that a limit of the vendor was broken, if it was. If that is excused and there is no other problem, the run is
// void.
func (r *Report) Broken(bad, excused bool, format string, args ...any) {
	if bad {
		r.Void = !r.control() && excused && (r.Void || len(r.problems) == 0)
		r.broken = true
		r.Problem(true, format, args...)
	}
}

func (r *Report) control() bool { return r.Algorithm == Control }

// Load makes the calls of a run, after it has started the servers that the flags do not name: a Redis if it is needed, and the
// vendor with its flags. Then it reads the figures of the vendor. load returns why the calls could not be made.
func (r *Report) Load(ctx context.Context, f *Flags, screen *Screen, needsRedis bool, load func(context.Context) error, vendor ...string) {
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	servers := Servers{Lost: end}
	defer servers.Stop()
	if needsRedis && f.Redis == "" {
		f.Redis, r.err = servers.StartRedis(running)
	}
	if r.err == nil && f.Vendor == "" {
		f.Vendor, r.err = servers.Start(running, "the vendor", append([]string{"vendor", "-addr", "127.0.0.1:0"}, vendor...)...)
	}
	if r.err == nil {
		fmt.Fprintf(screen, "vendor: %s\n", f.Vendor)
		_, r.err = Judge(running, f.Vendor) // can it be reached?
	}
	if r.err == nil {
		r.err = cmp.Or(load(running), context.Cause(running))
	}
	if ctx.Err() != nil {
		r.err = nil // it can be judged nevertheless
		r.Problem(true, "interrupted")
	}
	r.Problem(r.err != nil, "%v", r.err)
	if f.Vendor != "" && r.err == nil {
		r.Figures, r.err = Judge(context.WithoutCancel(ctx), f.Vendor)
		r.Problem(r.err != nil, "%v", r.err)
	}
	r.Set("judged", r.Figures != nil, "")
}

// Code returns the exit code. That of a control that has run is 0 in any case.
func (r *Report) Code() int {
	switch {
	case r.err != nil:
		return 1
	case len(r.problems) == 0 || r.control():
		return 0
	case r.Void:
		return 3
	}
	return 1
}

// MarshalJSON writes the fields and the verdict.
func (r *Report) MarshalJSON() ([]byte, error) {
	r.Flags("algorithm", r.Algorithm, "ok", len(r.problems) == 0)
	if len(r.problems) > 0 {
		r.Set("problem", strings.Join(r.problems, "; "), "")
	}
	return json.Marshal(r.values)
}

// show writes the columns of a table, with a sentence for each line, and the verdicts.
func show(w io.Writer, ok string, columns []*Report) {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, r := range columns {
		fmt.Fprintf(tw, "\t%s", strings.ReplaceAll(r.Algorithm, Control, Control+" (control)"))
	}
	fmt.Fprintln(tw, "\t")
	for _, line := range columns[0].lines {
		fmt.Fprint(tw, line.name)
		for _, r := range columns {
			fmt.Fprintf(tw, "\t%s", text(r.values[line.name]))
		}
		fmt.Fprintf(tw, "\t%s\n", line.sentence)
	}
	_ = tw.Flush() // to standard output
	for _, r := range columns {
		fmt.Fprintln(w, r.verdict(ok))
	}
}

// text returns a field for the table, of texts their number.
func text(value any) string {
	switch value := value.(type) {
	case nil:
		return "-"
	case json.RawMessage:
		return string(value)
	case []string:
		return strconv.Itoa(len(value))
	}
	return fmt.Sprint(value)
}

func (r *Report) verdict(ok string) string {
	problem := strings.Join(r.problems, "; ")
	switch {
	case r.control() && r.broken:
		return "the control broke the limit, as expected: " + problem
	case problem == "":
		return ok
	case r.Void:
		return fmt.Sprintf("VOID: %s, and the machine stalled for longer than the slack", problem)
	}
	return "FAILED: " + problem
}

// Show runs a program: with JSON one algorithm, otherwise the control too, unless an algorithm or a vendor is given. The
// text begins with what the vendor demands, and ends with both beside each other. It returns the exit code.
func (f *Flags) Show(ctx context.Context, stdout, stderr io.Writer, demand, ok string, run func(context.Context, Flags, *Screen) *Report) int {
	alone := f.Algorithm != "" || f.Vendor != ""
	f.Vendor, f.Algorithm = strings.TrimRight(f.Vendor, "/"), cmp.Or(f.Algorithm, "gresil")
	if f.JSON {
		r := run(ctx, *f, &Screen{Writer: stderr})
		WriteJSON(stdout, r)
		return r.Code()
	}
	fmt.Fprintln(stdout, demand+"\n")
	columns := []*Report{run(ctx, *f, &Screen{Writer: stderr})}
	if !alone && columns[0].err == nil && ctx.Err() == nil {
		fmt.Fprintln(stderr, "the control makes the same calls without a limit")
		control := *f
		control.Algorithm = Control
		columns = append(columns, run(ctx, control, &Screen{Writer: stderr}))
	}
	show(stdout, ok, columns)
	return columns[0].Code()
}

// Round rounds to three places.
func Round(x float64) float64 { return math.Round(x*1000) / 1000 }

// Milliseconds returns a time in milliseconds.
func Milliseconds(d time.Duration) float64 { return Round(d.Seconds() * 1000) }
