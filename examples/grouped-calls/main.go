// Command grouped-calls sends single records to a vendor that accepts calls of many records, and only so many calls a
// minute, from several processes, and prints how the vendor saw the calls.
//
//	grouped-calls [-options N] [-records N] [-max-records N] [-calls-per-minute N] [-processes N] [-redis HOST:PORT] [-scale S] [-vendor URL] [-algorithm A] [-json]
//
// The records are dealt in turn to the options, and those of each option to the processes. An option is a predefined set of
// arguments of the vendor's method: the records of a call have one option. All records are added first. Then the calls begin.
//
// With the algorithm gresil, each process has a batcher of outbound/batch and a gate of outbound/gate. Several processes
// share the groups and the limit in Redis, so a call has records of any of them. The control, naive, makes one call for each
// record, without a limit, and repeats none. Without -algorithm, -vendor and -json, it makes its calls afterwards.
//
// If a process is killed, another one replaces it, and takes its records. Those of its calls in flight can arrive again, with
// the same Idempotency-Key. A control, and a single process, cannot go on.
//
// Without -redis, the program starts a redis-server of its own, on a free port, if it needs one: naive and a single process
// with gresil do not. The names in Redis have the name of the run.
//
// The vendor is a process that the program starts, or the one at the URL. It must answer
//
//	POST URL/merge?method=M    {"results": [{"ok": true, "error": ""}, ...]} to {"option": "...", "records": [...]}
//	GET URL/judge              its figures as JSON, or 404
//
// with a result for each record, in their order. Each call has an Idempotency-Key, the time in µs since 1970 at which it was
// sent as X-Sent, and the arguments of its option as more parameters. The status 400 is for a call that is too big or
// malformed, and 429 for one that is over the limit, which counts too. The figures are arrivals (calls), over (those that
// were refused), too_big, bad, calls_by_option (accepted), records (of these), unique and duplicates (of the records),
// most_sliding (calls in any minute), most_fixed (calls in a minute of the clock), seconds (from the first arrival to the
// last), and stall_ms. They are asked for before the first call too. With -scale S, a minute of the vendor is 1/S of a real
// one. Times in the figures are real ones.
//
// The exit code is 0 if all records were served once, by the smallest number of calls of each option, or with a process that
// ended at least once, and the vendor saw no minute above the limit, otherwise 1, and 2 for a wrong command line. It is 3 if
// the run is void: a minute was above the limit because the machine stalled, as a process or a call was delayed by more than
// the Slack of the gate. No limiter can prevent that. A control that has run exits with 0 in any case.
//
// "grouped-calls vendor -addr 127.0.0.1:8090" is the vendor alone.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/gresil/gresil/examples/internal/demo"
)

func main() { command().Main() }

func command() demo.Command {
	return demo.Command{Whole: run, Worker: work, Parts: map[string]demo.Part{"vendor": demo.Vendor("grouped-calls vendor", vendor)}}
}

// config has the values of the flags. A worker has it as JSON.
type config struct {
	demo.Flags
	terms

	Records   int // of all options
	Processes int
}

// terms are those of the vendor.
type terms struct {
	Options        int
	MaxRecords     int // of a call
	CallsPerMinute int
	Scale          float64
}

// define adds the flags that the vendor has too.
func (c *terms) define(flags *flag.FlagSet) {
	c.MaxRecords, c.CallsPerMinute, c.Scale = 200, 100, 1
	demo.Number(flags, &c.MaxRecords, "max-records", 1, 10_000, "`number` of records that the vendor accepts in a call")
	demo.Number(flags, &c.CallsPerMinute, "calls-per-minute", 1, 1_000_000, "`calls` that the vendor accepts in any minute")
	demo.Number(flags, &c.Scale, "scale", 0.1, 600, "`factor` by which the minute of the vendor is shorter")
}

// minute is that of the vendor.
func (c *terms) minute() time.Duration { return c.scaled(time.Minute) }

func (c *terms) scaled(d time.Duration) time.Duration { return time.Duration(float64(d) / c.Scale) }

// ideal returns the smallest number of calls, and their time at the limit.
func (c config) ideal() (calls int, d time.Duration) {
	for option := range c.Options {
		records := (c.Records - option + c.Options - 1) / c.Options
		calls += (records + c.MaxRecords - 1) / c.MaxRecords
	}
	return calls, c.minute() * time.Duration(calls) / time.Duration(c.CallsPerMinute)
}

// needsRedis reports whether the processes must share something.
func (c config) needsRedis() bool { return c.Algorithm != demo.Control && c.Processes > 1 }

// run returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := config{Records: 20_000, Processes: 2, terms: terms{Options: 8}}
	flags := flag.NewFlagSet("grouped-calls", flag.ContinueOnError)
	demo.Number(flags, &c.Options, "options", 1, 10_000, "`number` of options, each with calls of its own")
	demo.Number(flags, &c.Records, "records", 1, 10_000_000, "`number` of records, of all options")
	demo.Number(flags, &c.Processes, "processes", 1, 64, "`number` of processes that add records and make calls")
	c.define(flags)
	c.Define(flags, true)
	code, ok := demo.Parse(flags, args, stderr, func() error {
		if c.Records < c.Options {
			return fmt.Errorf("-records %d -options %d: each option must have a record", c.Records, c.Options)
		}
		return nil
	})
	if !ok {
		return code
	}
	demand := fmt.Sprintf("The vendor accepts %d calls in any %v, and %d records in a call. %d processes add %d records, in %d options.",
		c.CallsPerMinute, c.minute().Round(time.Millisecond), c.MaxRecords, c.Processes, c.Records, c.Options)
	const fine = "ok: all records were served by the smallest number of calls, and no minute was above the limit"
	return c.Show(ctx, stdout, stderr, demand, fine, c.report)
}
