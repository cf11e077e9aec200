// Command campaigns makes the calls of several campaigns to a vendor that permits so many calls a
// second, from several processes, and prints how the vendor saw them.
//
//	campaigns [-campaigns N] [-calls N] [-workers N] [-cps N] [-redis HOST:PORT] [-vendor URL] [-algorithm A] [-engine memory|asynq] [-kill N] [-json]
//
// With the algorithm gresil, each process has a pacer of outbound/pace, and the pacers share the limit
// in Redis. There are two controls. Article counts the calls of each second in Redis, and delays a call
// above the limit by 60 to 120 seconds at random. Naive has no limit.
//
// Without -redis, the program starts a redis-server of its own, on a free port, if it needs one: naive and a
// single worker with gresil do not. The key of the limit is the URL of the vendor, so that runs with one
// Redis and one vendor share the limit.
//
// The vendor is a process that the program starts, or the one at the URL. It must answer
//
//	POST URL/call     204; Idempotency-Key is <campaign>/<number>, and X-Campaign the campaign
//	GET URL/judge     its figures as JSON, or 404
//
// The names of campaigns begin with a name of the run. The figures are arrivals, unique (different
// keys), duplicates, most_sliding (in any second), most_fixed (in a second of the clock, which can
// begin at 20 phases), seconds (from the first arrival to the last), and stall_ms.
//
// Each worker is a process. It reads the numbers of calls from its standard input, and writes when one
// is started, and done. With -kill N, a worker is killed N times on the way. A worker that has ended
// is replaced by another process, and its numbers go to other workers. The calls that were in flight
// are printed. They are repeated once, with the same Idempotency-Key: each can have arrived twice, or,
// if its second worker was killed too, not at all. Other calls arrive once.
//
// The calls are jobs of outbound/jobs. With the engine memory, they are in the memory of the program and
// of the worker that makes them. With asynq, which needs the algorithm gresil, the program feeds them to
// Redis a little ahead, each worker takes them from there, and those of a worker that was killed run again
// 60 to 120 seconds later. runs_per_call are the runs of handlers, and retried those that followed a failure.
//
// The exit code is 0 if all calls were served and the vendor saw no second above the limit, otherwise
// 1, and 2 for a wrong command line. It is 3 if the run is void: a second was above the limit because the
// machine stalled, as a process or a call was delayed by more than the skew of the pacer. No limiter can prevent that. A control that has run exits with 0 in any case.
//
// "campaigns vendor -addr 127.0.0.1:8090" is the vendor alone.
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
