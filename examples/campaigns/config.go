package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// config has the values of the flags.
type config struct {
	campaigns int
	calls     int // of each campaign
	workers   int
	cps       int
	redis     string // HOST:PORT; "" is a process of our own, if one is needed
	vendor    string // URL; "" is a process of our own
	algorithm string
	engine    string // of the jobs
	kill      int
	json      bool
}

func (c config) total() int { return c.campaigns * c.calls }

// ideal is the time of all calls at the limit.
func (c config) ideal() time.Duration {
	return time.Duration(float64(c.total()) / float64(c.cps) * float64(time.Second))
}

// needsRedis reports whether the workers must share something.
func (c config) needsRedis() bool {
	return c.engine == "asynq" || c.algorithm == "article" || c.algorithm == "gresil" && c.workers > 1
}

func algorithms() []string { return []string{"gresil", "article", "naive"} }

const mostCalls = 10_000_000

// parse reads the command line, and reports its mistakes itself.
func parse(args []string, stderr io.Writer) (config, error) {
	cfg := config{campaigns: 20, calls: 1000, workers: 4, cps: 500, algorithm: "gresil", engine: "memory"}
	flags := flag.NewFlagSet("campaigns", flag.ContinueOnError)
	flags.Func("campaigns", "`number` of campaigns (default 20)", program.Whole(&cfg.campaigns, 1, 10_000))
	flags.Func("calls", "`number` of calls of each campaign (default 1000)", program.Whole(&cfg.calls, 1, 1_000_000))
	flags.Func("workers", "`number` of processes that make calls (default 4)", program.Whole(&cfg.workers, 1, 64))
	flags.Func("cps", "`calls` that the vendor permits in any second (default 500)", program.Whole(&cfg.cps, 1, 100_000))
	flags.Func("redis", "`HOST:PORT` of a Redis; without it, the program starts its own", program.HostPort(&cfg.redis))
	flags.Func("vendor", "`URL` of a vendor; without it, the program starts its own", program.VendorURL(&cfg.vendor))
	flags.Func("algorithm", strings.Join(algorithms(), "|")+" (default gresil)", program.OneOf(&cfg.algorithm, algorithms()...))
	flags.Func("engine", "memory|asynq: where the jobs are (default memory)", program.OneOf(&cfg.engine, "memory", "asynq"))
	flags.Func("kill", "`number` of times that a worker is killed, and replaced, on the way (default 0)", program.Whole(&cfg.kill, 0, 100))
	flags.BoolFunc("json", "print one JSON object", program.Bool(&cfg.json))
	err := program.Parse(flags, args, stderr, "-cps 500", func() error {
		switch {
		case cfg.total() > mostCalls:
			return fmt.Errorf("-campaigns %d -calls %d: must be %d calls in total at most", cfg.campaigns, cfg.calls, mostCalls)
		case cfg.engine == "asynq" && cfg.algorithm != "gresil":
			return fmt.Errorf("-engine asynq -algorithm %s: must be -algorithm gresil", cfg.algorithm)
		case cfg.kill >= cfg.total():
			return fmt.Errorf("-kill %d: must be less than the number of calls, %d", cfg.kill, cfg.total())
		}
		return nil
	})
	return cfg, err
}
