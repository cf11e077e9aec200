// Command redis measures what decisions over Redis cost beside a plain GCRA script and redis_rate,
// and with -campaigns whether twenty campaigns of four processes keep to their limits, which
// it judges itself. It starts its own servers. It exits with 1 when an operation came out wrong or a
// limit of ours was passed, and with 2 for a wrong command line.
package main

import (
	"context"
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
	if told := os.Getenv(toldBy); told != "" {
		os.Exit(callerMain(told, os.Stdout, os.Stderr))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr, bench.RedisSizes{Keys: 10_000}))
}

func run(args []string, stdout, stderr io.Writer, sizes bench.RedisSizes) int {
	flags := flag.NewFlagSet("redis", flag.ContinueOnError)
	flags.SetOutput(stderr)
	quick := flags.Bool("quick", false, "be done in less than a minute: short samples")
	asJSON := flags.Bool("json", false, "print an array of JSON")
	which := flags.String("row", "", "print the rows, or run the campaigns, that match this `REGEXP`")
	campaigns := flags.Bool("campaigns", false, "twenty campaigns from four processes, in place of the rows")
	calls := flags.Int("calls", 200_000, "how many calls the campaigns make together; all ways together take some two minutes, 2000000 ten")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	match, err := check(flags, *which, *calls)
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
	if *campaigns {
		err = runCampaigns(context.Background(), stdout, servers, *calls, match, *asJSON)
	} else {
		err = runRows(stdout, servers, sizes, match, *quick, *asJSON)
	}
	switch {
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

func check(flags *flag.FlagSet, which string, calls int) (*regexp.Regexp, error) {
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("there are flags only, not %q", flags.Arg(0))
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if given["campaigns"] && given["quick"] {
		return nil, errors.New("-quick is for the rows, not for -campaigns: give it fewer -calls")
	}
	if given["calls"] && !given["campaigns"] {
		return nil, fmt.Errorf("-calls %d: is for -campaigns", calls)
	}
	if calls < campaignCount*processes || calls%(campaignCount*processes) != 0 {
		return nil, fmt.Errorf("-calls %d: must be a multiple of %d, so that each process has as many of each campaign", calls, campaignCount*processes)
	}
	match, err := regexp.Compile(which)
	if err != nil {
		return nil, fmt.Errorf("-row: %w", err)
	}
	return match, nil
}

func runRows(w io.Writer, servers *bench.Redis, sizes bench.RedisSizes, match *regexp.Regexp, quick, asJSON bool) error {
	plan, load := bench.Plan{Samples: 20}, 300*time.Millisecond // short and often, as what else runs changes from second to second
	if quick {
		plan, load = bench.Plan{Samples: 6}, 150*time.Millisecond
	}
	if sizes.Load == 0 {
		sizes.Load = load
	}
	var results []result
	for _, r := range bench.RedisRows(servers, sizes) {
		if !slices.ContainsFunc(resultsOf(r, nil), func(res result) bool { return match.MatchString(res.Row) }) {
			continue
		}
		measured, err := bench.Measure(r, plan)
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
