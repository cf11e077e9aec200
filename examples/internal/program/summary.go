package program

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"
)

// A Summary is printed at the end of a run: as JSON its fields, as text its rows and a last line.
type Summary interface {
	Rows(row func(name string, value any))
	Verdict() string
}

// Print writes a summary.
func Print(w io.Writer, s Summary, asJSON bool) {
	if asJSON {
		PrintJSON(w, s)
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	s.Rows(func(name string, value any) { fmt.Fprintf(tw, "%s\t%v\n", name, value) })
	_ = tw.Flush() // to standard output
	fmt.Fprintln(w, s.Verdict())
}

// PrintJSON writes one object.
func PrintJSON(w io.Writer, value any) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value) // to standard output, or to a client that has left
}

// RunCode returns the exit code of a run. err is the reason why it could not be made or judged.
func RunCode(algorithm string, ok, void bool, err error) int {
	switch {
	case err != nil:
		return 1
	case ok || algorithm != "gresil": // a control
		return 0
	case void:
		return 3
	}
	return 1
}

// Problems are the reasons why a run is not ok.
type Problems []string

// Add adds a problem, if it is one.
func (p *Problems) Add(bad bool, format string, args ...any) {
	if bad {
		*p = append(*p, fmt.Sprintf(format, args...))
	}
}

func (p *Problems) String() string { return strings.Join(*p, "; ") }

// Value returns a figure of a vendor, 0 if there is none.
func Value(n json.Number) float64 {
	x, _ := n.Float64()
	return x
}

// Round rounds to three places.
func Round(x float64) float64 { return math.Round(x*1000) / 1000 }

// Milliseconds returns a time in milliseconds, with one place.
func Milliseconds(d time.Duration) float64 {
	return float64(d.Round(100*time.Microsecond)) / float64(time.Millisecond)
}
