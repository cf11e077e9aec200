package main

import (
	"flag"
	"io"
	"strings"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// config has the values of the flags.
type config struct {
	calls     int
	rate      float64 // a second of the vendor
	capacity  int
	limit     float64 // a second of the vendor; 0 is none
	scale     float64
	vendor    string // URL; "" is a process of our own
	algorithm string
	json      bool
}

// at returns when call i is offered, after the start.
func (c config) at(i int) time.Duration {
	return time.Duration(float64(i) / (c.rate * c.scale) * float64(time.Second))
}

func algorithms() []string { return []string{"gresil", "article", "naive"} }

// parse reads the command line, and reports its mistakes itself.
func parse(args []string, stderr io.Writer) (config, error) {
	cfg := config{calls: 6000, rate: 120, capacity: 8, scale: 1, algorithm: "gresil"}
	flags := flag.NewFlagSet("vendor-actor", flag.ContinueOnError)
	flags.Func("calls", "`number` of calls that are offered (default 6000)", program.Whole(&cfg.calls, 1, 1_000_000))
	flags.Func("rate", "`calls` offered in a second of the vendor (default 120)", program.Number(&cfg.rate, 0.01, 100_000))
	flags.Func("capacity", "`number` of calls in flight at most, of gresil and article (default 8)", program.Whole(&cfg.capacity, 1, 10_000))
	flags.Func("limit", "`calls` that gresil sends in a second of the vendor at most; 0 is no limit (default 0)", program.Number(&cfg.limit, 0, 100_000))
	flags.Func("scale", "`factor` by which the vendor is faster, and the load higher (default 1)", program.Number(&cfg.scale, 0.1, 1000))
	flags.Func("vendor", "`URL` of a vendor; without it, the program starts its own", program.VendorURL(&cfg.vendor))
	flags.Func("algorithm", strings.Join(algorithms(), "|")+" (default gresil)", program.OneOf(&cfg.algorithm, algorithms()...))
	flags.BoolFunc("json", "print one JSON object", program.Bool(&cfg.json))
	err := program.Parse(flags, args, stderr, "-scale 10", nil)
	return cfg, err
}
