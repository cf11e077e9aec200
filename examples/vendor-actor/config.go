package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
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
	flags.SetOutput(stderr)
	flags.Func("calls", "`number` of calls that are offered (default 6000)", whole(&cfg.calls, 1_000_000))
	flags.Func("rate", "`calls` offered in a second of the vendor (default 120)", number(&cfg.rate, 0.01, 100_000))
	flags.Func("capacity", "`number` of calls in flight at most, of gresil and article (default 8)", whole(&cfg.capacity, 10_000))
	flags.Func("limit", "`calls` that gresil sends in a second of the vendor at most; 0 is no limit (default 0)", number(&cfg.limit, 0, 100_000))
	flags.Func("scale", "`factor` by which the vendor is faster, and the load higher (default 1)", number(&cfg.scale, 0.1, 1000))
	flags.Func("vendor", "`URL` of a vendor; without it, the program starts its own", vendorURL(&cfg.vendor))
	flags.Func("algorithm", strings.Join(algorithms(), "|")+" (default gresil)", func(s string) error {
		if !slices.Contains(algorithms(), s) {
			return fmt.Errorf("must be %s", strings.Join(algorithms(), ", "))
		}
		cfg.algorithm = s
		return nil
	})
	flags.BoolFunc("json", "print one JSON object", func(s string) (err error) {
		if cfg.json, err = strconv.ParseBool(s); err != nil {
			return errors.New("must be true or false")
		}
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	if flags.NArg() > 0 {
		err := fmt.Errorf("unexpected argument %q: there are only flags, such as -scale 10", flags.Arg(0))
		fmt.Fprintf(stderr, "vendor-actor: %v\n", err)
		return cfg, err
	}
	return cfg, nil
}

func whole(to *int, most int) func(string) error {
	return func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > most {
			return fmt.Errorf("must be a whole number, 1 to %d", most)
		}
		*to = n
		return nil
	}
}

func number(to *float64, least, most float64) func(string) error {
	return func(s string) error {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(x) || x < least || x > most {
			return fmt.Errorf("must be a number, %v to %.0f", least, most)
		}
		*to = x
		return nil
	}
}

func vendorURL(to *string) func(string) error {
	return func(s string) error {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return errors.New("must be a URL without a query, such as http://127.0.0.1:8090")
		}
		*to = strings.TrimRight(s, "/")
		return nil
	}
}
