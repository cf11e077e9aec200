// Command compare measures this module and its peers side by side, in turns, and
// prints a table in Markdown. It exits with 1 when an operation came out wrong, and
// with 2 for a wrong command line.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"

	"github.com/gresil/gresil/bench"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, bench.Nominal())) }

func run(args []string, stdout, stderr io.Writer, sizes bench.Sizes) int {
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.SetOutput(stderr)
	quick := flags.Bool("quick", false, "be done in less than a minute: short turns, and no rows with 1,000,000 keys, 100,000 that are refused, or a real server")
	asJSON := flags.Bool("json", false, "print an array of JSON")
	which := flags.String("row", "", "measure the rows that match this `REGEXP`")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	rows, err := choose(bench.Rows(sizes), *which, *quick, flags.Args())
	if err != nil {
		fmt.Fprintf(stderr, "compare: %v\n", err)
		return 2
	}
	plan := bench.Full()
	if *quick {
		plan = bench.Quick()
	}
	results := []bench.Result{} // an empty array, not null
	for _, r := range rows {
		of, err := calm(func() ([]bench.Result, error) {
			measured, err := bench.Measure(r, plan)
			return bench.Results(r, measured), err
		})
		if err != nil {
			fmt.Fprintf(stderr, "compare: %v\n", err)
			return 1
		}
		results = append(results, of...)
	}
	if err := write(stdout, *asJSON, rows, results); err != nil {
		fmt.Fprintf(stderr, "compare: %v\n", err)
		return 1
	}
	return 0
}

// tries is how often a row is measured that other processes disturb.
const tries = 3

// calm measures a row until other processes do not disturb it, or all tries are used.
func calm(measure func() ([]bench.Result, error)) (results []bench.Result, err error) {
	for range tries {
		results, err = measure()
		if err != nil || !slices.ContainsFunc(results, func(r bench.Result) bool { return r.Disturbed }) {
			break
		}
	}
	return results, err
}

func choose(all []bench.Row, which string, quick bool, rest []string) ([]bench.Row, error) {
	if len(rest) > 0 {
		return nil, fmt.Errorf("there are flags only, not %q", rest[0])
	}
	match, err := regexp.Compile(which)
	if err != nil {
		return nil, fmt.Errorf("-row: %w", err)
	}
	var rows []bench.Row
	for _, r := range all {
		if match.MatchString(r.Name) && (!quick || !r.Slow) {
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("-row %q matches none; -quick leaves out some, see -h", which)
	}
	return rows, nil
}

func write(w io.Writer, asJSON bool, rows []bench.Row, results []bench.Result) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		compared := []bench.Result{}
		for _, r := range results {
			if r.OursNs != nil { // the floors on their own compare nothing
				compared = append(compared, r)
			}
		}
		return e.Encode(compared)
	}
	bench.WriteTable(w, results)
	fmt.Fprintln(w)
	bench.WriteNotes(w, rows)
	return nil
}
