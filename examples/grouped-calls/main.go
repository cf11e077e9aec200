// Command grouped-calls sends single records to a vendor that accepts calls of many records, and only
// so many calls a minute, from several processes, and prints how the vendor saw the calls.
//
//	grouped-calls [-options N] [-records N] [-max-records N] [-calls-per-minute N] [-processes N] [-redis HOST:PORT] [-scale S] [-vendor URL] [-algorithm A] [-json]
//
// The records are dealt in turn to the options, and those of each option to the processes. An option is
// a predefined set of arguments of the vendor's method: the records of a call have one option. All
// records are added first. Then the calls begin.
//
// With the algorithm gresil, each process has a batcher of outbound/batch and a pacer of outbound/pace.
// Several processes share the groups and the limit in Redis, so a call has records of any of them. There
// are two controls. Fork groups in Redis too, but splits the limit evenly over the options, sends the calls
// of a flush at once, and repeats the whole flush of an option if a call is refused. Naive makes one call for
// each record, without a limit, and repeats none.
//
// If a process ends, such as by a kill, the others take its records. Those of its calls in flight can
// arrive again, with the same Idempotency-Key. A control, and a single process, cannot go on.
//
// Without -redis, the program starts a redis-server of its own, on a free port, if it needs one: naive and a
// single process with gresil do not. The names in Redis have the name of the run.
//
// The vendor is a process that the program starts, or the one at the URL. It must answer
//
//	POST URL/merge?method=M    {"results": [{"ok": true, "error": ""}, ...]} to {"option": "...", "records": [...]}
//	GET URL/judge              its figures as JSON, or 404
//
// with a result for each record, in their order. Each call has an Idempotency-Key, the time in µs since
// 1970 at which it was sent as X-Sent, and the arguments of its option as more parameters. The status 400
// is for a call that is too big or malformed, and 429 for one that is over the limit, which counts too.
// The figures are arrivals (calls), over (those that were refused), too_big, bad, calls_by_option
// (accepted), records (of these), unique and duplicates (of the records), most_sliding (calls in any
// minute), most_fixed (calls in a minute of the clock, which can begin at 20 phases), seconds (from the
// first arrival to the last), and stall_ms. With -scale S, a minute of the vendor is 1/S of a real one.
// Times in the figures are real ones.
//
// The exit code is 0 if all records were served once, by the smallest number of calls of each option,
// or with a process that ended at least once, and the vendor saw no minute above the limit, otherwise 1, and 2 for a wrong command line. It is 3 if the
// run is void: a minute was above the limit because the machine stalled, as a process or a call was delayed by more than the
// skew of the pacer. No limiter can prevent that. A control that has run exits with
// 0 in any case. A run without a record that is accepted for three minutes of the vendor is stopped.
//
// "grouped-calls vendor -addr 127.0.0.1:8090" is the vendor alone.
package main

import (
	"context"
	"io"

	"github.com/gresil/gresil/examples/internal/program"
)

func main() { command().Main() }

func command() program.Command {
	return program.Command{Whole: run, Vendor: runVendor, Worker: runWorker}
}

// run returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parse(args, stderr)
	if err != nil {
		return program.ExitCode(err)
	}
	s := show(ctx, cfg, program.NewScreen(stderr))
	program.Print(stdout, s, cfg.json)
	return program.RunCode(s.Algorithm, s.OK, s.Void, s.err)
}
