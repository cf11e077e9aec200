package demo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
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

	fields   []field
	problems []string
	broken   bool // the vendor saw that its limit was broken
	err      error
}

// A field has a sentence if the text shows it.
type field struct {
	name     string
	value    any
	sentence string
}

// Set sets a field. One without a sentence is for JSON alone.
func (r *Report) Set(name string, value any, sentence string) {
	r.fields = append(r.fields, field{name, value, sentence})
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

// Broken adds that a limit of the vendor was broken, if it was. That is no fault of a limiter if there is no other problem,
// and the machine stalled: such a run is void.
func (r *Report) Broken(bad, stalled bool, format string, args ...any) {
	if bad {
		r.Void = !r.control() && stalled && (r.Void || len(r.problems) == 0)
		r.broken = true
		r.Problem(true, format, args...)
	}
}

// Excused reports whether a stall explains that a limit was broken: it was longer than is allowed for, and the run was not
// faster than the limit, but for one period. The stall and what is allowed for are in ms, the others in seconds.
func Excused(stall, allowed, elapsed, ideal, period float64) bool {
	return stall > allowed && elapsed > ideal-period
}

func (r *Report) control() bool { return r.Algorithm == Control }

// Load makes the calls of a run, after serve has started servers, and reads the figures of the vendor, if there is one. The
// servers end afterwards. load returns why the calls could not be made, or have ended early; it ends with its context, and
// can end that.
func (r *Report) Load(
	ctx context.Context, f *Flags, stderr io.Writer,
	serve func(context.Context, *Servers) error, load func(context.Context, context.CancelCauseFunc) error,
) {
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	var servers Servers
	defer servers.Stop()
	if r.err = serve(ctx, &servers); r.err == nil {
		servers.Watch(running, end)
		if f.Vendor != "" {
			fmt.Fprintf(stderr, "vendor: %s\n", f.Vendor)
		}
		r.err = cmp.Or(load(running, end), context.Cause(running))
	}
	if ctx.Err() != nil {
		r.err = errInterrupted
	}
	r.Problem(r.err != nil, "%v", r.err)
	if errors.Is(r.err, errInterrupted) || errors.Is(r.err, ErrStalled) {
		r.err = nil // it can be judged nevertheless
	}
	if f.Vendor == "" {
		return
	}
	if r.err == nil {
		r.Figures, r.err = Judge(context.WithoutCancel(ctx), f.Vendor)
		r.Problem(r.err != nil, "%v", r.err)
	}
	r.Set("judged", r.Figures != nil, "")
}

var errInterrupted = errors.New("interrupted")

// Serve returns what starts the servers that the flags do not name: a Redis if it is needed, and the vendor with its flags.
func (f *Flags) Serve(needsRedis bool, flags ...string) func(context.Context, *Servers) error {
	return func(ctx context.Context, servers *Servers) (err error) {
		if needsRedis && f.Redis == "" {
			if f.Redis, err = servers.StartRedis(ctx); err != nil {
				return err
			}
		}
		if f.Vendor == "" {
			f.Vendor, err = servers.Start(ctx, "the vendor", append([]string{"vendor", "-addr", "127.0.0.1:0"}, flags...)...)
		}
		return err
	}
}

// OK reports whether the run has no problem.
func (r *Report) OK() bool { return len(r.problems) == 0 }

// Code returns the exit code. That of a control that has run is 0 in any case.
func (r *Report) Code() int {
	switch {
	case r.err != nil:
		return 1
	case r.OK() || r.control():
		return 0
	case r.Void:
		return 3
	}
	return 1
}

// MarshalJSON writes the fields in their order, and the verdict.
func (r *Report) MarshalJSON() ([]byte, error) {
	fields := append([]field{{name: "algorithm", value: r.Algorithm}}, r.fields...)
	fields = append(fields, field{name: "ok", value: r.OK()})
	if !r.OK() {
		fields = append(fields, field{name: "problem", value: strings.Join(r.problems, "; ")})
	}
	var out bytes.Buffer
	for i, f := range fields {
		name, err := json.Marshal(f.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		out.WriteByte("{,"[min(i, 1)])
		out.Write(append(append(name, ':'), value...))
	}
	return append(out.Bytes(), '}'), nil
}

// show writes the columns of a table, with a sentence for each line, and the verdicts.
func show(w io.Writer, ok string, columns []*Report) {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, r := range columns {
		name := r.Algorithm
		if r.control() {
			name += " (control)"
		}
		fmt.Fprintf(tw, "\t%s", name)
	}
	fmt.Fprintln(tw, "\t")
	for _, f := range columns[0].fields {
		if f.sentence == "" {
			continue
		}
		fmt.Fprint(tw, f.name)
		for _, r := range columns {
			fmt.Fprintf(tw, "\t%s", r.text(f.name))
		}
		fmt.Fprintf(tw, "\t%s\n", f.sentence)
	}
	_ = tw.Flush() // to standard output
	for _, r := range columns {
		fmt.Fprintln(w, r.verdict(ok))
	}
}

// text returns a field for the table, of texts their number.
func (r *Report) text(name string) string {
	i := slices.IndexFunc(r.fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return "-"
	}
	switch value := r.fields[i].value.(type) {
	case json.RawMessage:
		return string(value)
	case []string:
		return strconv.Itoa(len(value))
	default:
		return fmt.Sprint(value)
	}
}

func (r *Report) verdict(ok string) string {
	problem := strings.Join(r.problems, "; ")
	switch {
	case r.control() && r.broken:
		return "the control broke the limit, as expected: " + problem
	case r.OK():
		return ok
	case r.Void:
		return fmt.Sprintf("VOID: %s, and the machine stalled for longer than the slack", problem)
	}
	return "FAILED: " + problem
}

// Show runs a program: with JSON one algorithm, otherwise the control too, unless an algorithm or a vendor is given. The
// text begins with what the vendor demands, and ends with both beside each other. It returns the exit code.
func (f *Flags) Show(ctx context.Context, stdout, stderr io.Writer, demand, ok string, run func(context.Context, Flags, *Screen) *Report) int {
	screen := NewScreen(stderr)
	if !f.JSON {
		fmt.Fprintln(stdout, demand+"\n")
	}
	columns := []*Report{run(ctx, *f, screen)}
	if f.JSON {
		WriteJSON(stdout, columns[0])
		return columns[0].Code()
	}
	if !f.Alone && f.Vendor == "" && columns[0].err == nil && ctx.Err() == nil {
		fmt.Fprintln(screen, "the control makes the same calls without a limit")
		control := *f
		control.Algorithm = Control
		columns = append(columns, run(ctx, control, screen))
	}
	show(stdout, ok, columns)
	return columns[0].Code()
}

// Round rounds to three places.
func Round(x float64) float64 { return math.Round(x*1000) / 1000 }

// Milliseconds returns a time in milliseconds, with one place.
func Milliseconds(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond)) / float64(time.Millisecond)
}

func jsonText(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}
