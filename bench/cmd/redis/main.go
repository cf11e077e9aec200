// Command redis measures the cost of decisions over Redis beside a plain GCRA script and redis_rate. It
// starts its own servers. It exits with 1 if an operation had a wrong result, and with 2 for a wrong
// command line.
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
	"time"

	"github.com/gresil/gresil/bench"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, bench.RedisSizes{Keys: 10_000}))
}

func run(args []string, stdout, stderr io.Writer, sizes bench.RedisSizes) int {
	flags := flag.NewFlagSet("redis", flag.ContinueOnError)
	flags.SetOutput(stderr)
	quick := flags.Bool("quick", false, "few and short samples: less than 90 s in all")
	asJSON := flags.Bool("json", false, "print an array of JSON")
	which := flags.String("row", "", "print the rows that match this `REGEXP`")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	match, err := check(flags, *which)
	if err != nil {
		fmt.Fprintf(stderr, "redis: %v\n", err)
		return 2
	}
	servers, err := bench.NewRedis()
	if err != nil {
		fmt.Fprintf(stderr, "redis: %v\n", err)
		return 1
	}
	defer func() { _ = servers.Close() }()
	switch err = runRows(stdout, servers, sizes, match, *quick, *asJSON); {
	case errors.Is(err, errNoMatch):
		fmt.Fprintf(stderr, "redis: -row %q: %v\n", *which, err)
		return 2
	case err != nil:
		fmt.Fprintf(stderr, "redis: %v\n", err)
		return 1
	}
	return 0
}

var errNoMatch = errors.New("matches none")

func check(flags *flag.FlagSet, which string) (*regexp.Regexp, error) {
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("there are flags only, not %q", flags.Arg(0))
	}
	match, err := regexp.Compile(which)
	if err != nil {
		return nil, fmt.Errorf("-row: %w", err)
	}
	return match, nil
}

func runRows(w io.Writer, servers *bench.Redis, sizes bench.RedisSizes, match *regexp.Regexp, quick, asJSON bool) error {
	switch { // short and often: the load of other processes changes from second to second
	case sizes.Load > 0: // a test has chosen
	case quick:
		sizes.Samples, sizes.Load = 5, 100*time.Millisecond
	default:
		sizes.Samples, sizes.Load = 12, 200*time.Millisecond
	}
	var results []result
	for _, r := range bench.RedisRows(servers, sizes) {
		if !slices.ContainsFunc(resultsOf(r, nil), func(res result) bool { return match.MatchString(res.Row) }) {
			continue
		}
		measured, err := bench.Measure(r, bench.Plan{Samples: sizes.Samples})
		if err != nil {
			return err
		}
		for _, res := range resultsOf(r, measured) {
			if match.MatchString(res.Row) {
				results = append(results, res)
			}
		}
	}
	if results == nil {
		return errNoMatch
	}
	if asJSON {
		return writeJSON(w, results)
	}
	writeTable(w, results)
	return nil
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
