// Command campaigns makes the calls of several campaigns to a vendor that permits so many calls a second, from several
// processes, and prints how the vendor saw them.
//
//	campaigns [-campaigns N] [-calls N] [-workers N] [-cps N] [-redis HOST:PORT] [-vendor URL] [-algorithm A] [-engine memory|asynq] [-kill N] [-json]
//
// With the algorithm gresil, each process has a gate of outbound/gate, and the gates share the limit in Redis. A call that the
// vendor refuses with 429, or with a Retry-After, pauses all processes, and is made again after that. The control, naive, has
// no limit. Without -algorithm, -vendor and -json, the control makes the same calls afterwards.
//
// Without -redis, the program starts a redis-server of its own, on a free port, if it needs one: naive and a single worker
// with gresil do not. The gate has the name of the vendor's URL, so that runs with one Redis and one vendor share the limit.
//
// The vendor is a process that the program starts, or the one at the URL. It must answer
//
//	POST URL/call     204; Idempotency-Key is <campaign>/<number>, and X-Campaign the campaign
//	GET URL/judge     its figures as JSON, or 404
//
// The names of campaigns begin with a name of the run. The figures are arrivals, unique (different keys), duplicates,
// most_sliding (in any second), most_fixed (in a second of the clock), seconds (from the first arrival to the last), and
// stall_ms. They are asked for before the first call too.
//
// Each worker is a process, which feeds its part of each campaign to outbound/jobs, a little ahead of the calls. With the
// engine memory, the jobs are in the memory of the worker. With asynq, they are in Redis, and all workers take them from there;
// those of the control are in memory in any case. With -kill N, a worker is killed N times on the way. A worker that was killed is
// replaced by another process, which has the calls of its part that are not served yet. The calls that were in flight are
// listed with -json. They are repeated with the same Idempotency-Key: each can have arrived before. Other calls arrive once.
// With asynq, jobs that were active run again 60 to 120 seconds later. runs_per_call are the runs of handlers, and retried
// those that followed a failure.
//
// The exit code is 0 if all calls were served and the vendor saw no second above the limit, otherwise 1, and 2 for a wrong
// command line. It is 3 if the run is void: a second was above the limit because the machine stalled, as a process or a call
// was delayed by more than half of the gate's slack. No limiter can prevent that. A control that has run exits with 0 in any case.
//
// "campaigns vendor -addr 127.0.0.1:8090" is the vendor alone.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gresil/gresil/examples/internal/demo"
)

func main() { command().Main() }

func command() demo.Command {
	return demo.Command{Whole: run, Worker: work, Parts: map[string]demo.Part{"vendor": demo.Vendor("campaigns vendor", vendor)}}
}

func vendor(*flag.FlagSet) func(context.Context) http.Handler { return newVendor }

func newVendor(ctx context.Context) http.Handler {
	a := demo.NewArrivals(ctx, time.Second)
	return demo.NewVendor("POST /call", func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		if key == "" || r.Header.Get("X-Campaign") == "" {
			http.Error(w, "the headers Idempotency-Key and X-Campaign must be given", http.StatusBadRequest)
			return
		}
		a.Add(r.Header)
		a.Key(key)
		w.WriteHeader(http.StatusNoContent)
	}, func() any { return a.Judge() })
}

// config has the values of the flags. A worker has it as JSON.
type config struct {
	demo.Flags

	Campaigns, Calls int // calls of each campaign
	Workers, CPS     int
	Engine           string // of the jobs
	Kill             int
	Run              string // its name
}

func (c config) total() int { return c.Campaigns * c.Calls }

// ideal is the time of all calls at the limit.
func (c config) ideal() time.Duration {
	return time.Duration(c.total()) * time.Second / time.Duration(c.CPS)
}

// needsRedis reports whether the workers must share something.
func (c config) needsRedis() bool {
	return c.Algorithm != demo.Control && (c.Engine == "asynq" || c.Workers > 1)
}

const mostCalls = 10_000_000

// run returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := config{Campaigns: 20, Calls: 1000, Workers: 4, CPS: 500, Engine: "memory"}
	flags := flag.NewFlagSet("campaigns", flag.ContinueOnError)
	demo.Number(flags, &c.Campaigns, "campaigns", 1, 10_000, "`number` of campaigns")
	demo.Number(flags, &c.Calls, "calls", 1, 1_000_000, "`number` of calls of each campaign")
	demo.Number(flags, &c.Workers, "workers", 1, 64, "`number` of processes that make calls")
	demo.Number(flags, &c.CPS, "cps", 1, 100_000, "`calls` that the vendor permits in any second")
	flags.Func("engine", "memory|asynq: where the jobs are (default memory)", demo.OneOf(&c.Engine, "memory", "asynq"))
	demo.Number(flags, &c.Kill, "kill", 0, 100, "`number` of times that a worker is killed, and replaced, on the way")
	c.Define(flags, true)
	code, ok := demo.Parse(flags, args, stderr, func() error {
		if c.total() > mostCalls {
			return fmt.Errorf("-campaigns %d -calls %d: must be %d calls in total at most", c.Campaigns, c.Calls, mostCalls)
		}
		return nil
	})
	if !ok {
		return code
	}
	demand := fmt.Sprintf("The vendor permits %d calls in any second. %d campaigns make %d calls each, from %d processes.",
		c.CPS, c.Campaigns, c.Calls, c.Workers)
	return c.Show(ctx, stdout, stderr, demand, "ok: all calls were served, and no second was above the limit", c.report)
}
