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
// most_sliding (in any second), most_fixed (in a second of the clock, which can begin at 20 phases), seconds (from the first
// arrival to the last), and stall_ms.
//
// Each worker is a process. It reads the numbers of calls from its standard input, and writes when one is started, and done.
// With -kill N, a worker is killed N times on the way. A worker that has ended is replaced by another process, and its
// numbers go to other workers. The calls that were in flight are listed with -json. They are repeated with the same Idempotency-Key:
// each can have arrived before. Other calls arrive once.
//
// The calls are jobs of outbound/jobs. With the engine memory, they are in the memory of the program and of the worker that
// makes them. With asynq, which needs the algorithm gresil, the program feeds them to Redis a little ahead, each worker takes
// them from there, and those of a worker that was killed run again 60 to 120 seconds later. runs_per_call are the runs of
// handlers, and retried those that followed a failure.
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

func vendor(*flag.FlagSet) func(*demo.Stall) http.Handler {
	return func(s *demo.Stall) http.Handler { return newVendor(demo.NewArrivals(time.Second), s) }
}

func newVendor(a *demo.Arrivals, s *demo.Stall) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /judge", func(w http.ResponseWriter, _ *http.Request) { demo.WriteJSON(w, a.Judge(s.Duration())) })
	mux.HandleFunc("POST /call", func(w http.ResponseWriter, r *http.Request) {
		now := time.Now() // before anything
		key := r.Header.Get("Idempotency-Key")
		if key == "" || r.Header.Get("X-Campaign") == "" {
			http.Error(w, "the headers Idempotency-Key and X-Campaign must be given", http.StatusBadRequest)
			return
		}
		a.Add(now, r.Header, 0)
		a.Key([]byte(key))
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// config has the values of the flags. A worker has it as JSON.
type config struct {
	demo.Flags

	Campaigns, Calls int // calls of each campaign
	Workers, CPS     int
	Engine           string // of the jobs
	Kill             int
}

func (c config) total() int { return c.Campaigns * c.Calls }

// ideal is the time of all calls at the limit, in seconds.
func (c config) ideal() float64 { return float64(c.total()) / float64(c.CPS) }

// needsRedis reports whether the workers must share something.
func (c config) needsRedis() bool {
	return c.Algorithm != demo.Control && (c.Engine == "asynq" || c.Workers > 1)
}

const mostCalls = 10_000_000

// parse reads the command line, and reports its mistakes itself.
func parse(args []string, stderr io.Writer) (config, error) {
	c := config{Campaigns: 20, Calls: 1000, Workers: 4, CPS: 500, Engine: "memory"}
	flags := flag.NewFlagSet("campaigns", flag.ContinueOnError)
	flags.Func("campaigns", "`number` of campaigns (default 20)", demo.Whole(&c.Campaigns, 1, 10_000))
	flags.Func("calls", "`number` of calls of each campaign (default 1000)", demo.Whole(&c.Calls, 1, 1_000_000))
	flags.Func("workers", "`number` of processes that make calls (default 4)", demo.Whole(&c.Workers, 1, 64))
	flags.Func("cps", "`calls` that the vendor permits in any second (default 500)", demo.Whole(&c.CPS, 1, 100_000))
	flags.Func("engine", "memory|asynq: where the jobs are (default memory)", demo.OneOf(&c.Engine, "memory", "asynq"))
	flags.Func("kill", "`number` of times that a worker is killed, and replaced, on the way (default 0)", demo.Whole(&c.Kill, 0, 100))
	c.Define(flags, "without it, the program starts its own")
	err := demo.Parse(flags, args, stderr, "-cps 500", func() error {
		switch {
		case c.total() > mostCalls:
			return fmt.Errorf("-campaigns %d -calls %d: must be %d calls in total at most", c.Campaigns, c.Calls, mostCalls)
		case c.Engine == "asynq" && c.Algorithm == demo.Control:
			return fmt.Errorf("-engine asynq -algorithm %s: must be -algorithm gresil", c.Algorithm)
		case c.Kill >= c.total():
			return fmt.Errorf("-kill %d: must be less than the number of calls, %d", c.Kill, c.total())
		}
		return nil
	})
	return c, err
}

// run returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	if err != nil {
		return demo.ExitCode(err)
	}
	demand := fmt.Sprintf("The vendor permits %d calls in any second. %d campaigns make %d calls each, from %d processes.",
		c.CPS, c.Campaigns, c.Calls, c.Workers)
	return c.Show(ctx, stdout, stderr, demand, "ok: all calls were served, and no second was above the limit", c.report)
}
