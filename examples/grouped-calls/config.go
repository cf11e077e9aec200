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
	options        int
	records        int // of all options
	maxRecords     int // of a call
	callsPerMinute int // of the vendor
	processes      int
	redis          string // HOST:PORT; "" is a process of our own, if one is needed
	scale          float64
	vendor         string // URL; "" is a process of our own
	algorithm      string
	json           bool
}

// recordsOf returns the number of records of an option.
func (c config) recordsOf(option int) int { return share(c.records, c.options, option) }

// share returns the size of part i of n things that are dealt in turn to parts.
func share(n, parts, i int) int { return (n - i + parts - 1) / parts }

// calls returns the smallest number of calls that have all records.
func (c config) calls() (n int) {
	for option := range c.options {
		n += c.callsOf(option)
	}
	return n
}

func (c config) callsOf(option int) int {
	return (c.recordsOf(option) + c.maxRecords - 1) / c.maxRecords
}

// minute is that of the vendor.
func (c config) minute() time.Duration { return scaled(time.Minute, c.scale) }

func scaled(d time.Duration, scale float64) time.Duration {
	return time.Duration(float64(d) / scale)
}

// ideal is the time of the smallest number of calls at the limit.
func (c config) ideal() time.Duration {
	return time.Duration(float64(c.calls()) / float64(c.callsPerMinute) * float64(c.minute()))
}

// needsRedis reports whether the processes must share something.
func (c config) needsRedis() bool {
	return c.algorithm == "fork" || c.algorithm == "gresil" && c.processes > 1
}

func algorithms() []string { return []string{"gresil", "fork", "naive"} }

// The limits of the flags that the vendor has too.
const (
	mostRecordsOfCall = 10_000
	mostCalls         = 1_000_000
	mostScale         = 600
)

// parse reads the command line, and reports its mistakes itself.
func parse(args []string, stderr io.Writer) (config, error) {
	cfg := config{options: 8, records: 20_000, maxRecords: 200, callsPerMinute: 100, processes: 2, scale: 1, algorithm: "gresil"}
	flags := flag.NewFlagSet("grouped-calls", flag.ContinueOnError)
	flags.Func("options", "`number` of options, each with calls of its own (default 8)", program.Whole(&cfg.options, 1, 10_000))
	flags.Func("records", "`number` of records, of all options (default 20000)", program.Whole(&cfg.records, 1, 10_000_000))
	flags.Func("max-records", "`number` of records that the vendor accepts in a call (default 200)", program.Whole(&cfg.maxRecords, 1, mostRecordsOfCall))
	flags.Func("calls-per-minute", "`calls` that the vendor accepts in any minute (default 100)", program.Whole(&cfg.callsPerMinute, 1, mostCalls))
	flags.Func("processes", "`number` of processes that add records and make calls (default 2)", program.Whole(&cfg.processes, 1, 64))
	flags.Func("redis", "`HOST:PORT` of a Redis; without it, the program starts its own, if it needs one", program.HostPort(&cfg.redis))
	flags.Func("scale", "`factor` by which the minute of the vendor is shorter (default 1)", program.Number(&cfg.scale, 0.1, mostScale))
	flags.Func("vendor", "`URL` of a vendor; without it, the program starts its own", program.VendorURL(&cfg.vendor))
	flags.Func("algorithm", strings.Join(algorithms(), "|")+" (default gresil)", program.OneOf(&cfg.algorithm, algorithms()...))
	flags.BoolFunc("json", "print one JSON object", program.Bool(&cfg.json))
	err := program.Parse(flags, args, stderr, "-scale 60", func() error {
		if cfg.records < cfg.options {
			return fmt.Errorf("-records %d -options %d: each option must have a record", cfg.records, cfg.options)
		}
		return nil
	})
	return cfg, err
}
