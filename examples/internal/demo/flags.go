package demo

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Flags has the values of the flags that all programs with a vendor have.
type Flags struct {
	Vendor    string // URL; "" is a process of our own
	Redis     string // HOST:PORT; "" is a process of our own, if one is needed
	Algorithm string
	Alone     bool // the algorithm is given: there is no control beside it
	JSON      bool
}

// Control is the algorithm without a limit.
const Control = "naive"

// Define adds the flags, with -redis if a Redis can be needed.
func (f *Flags) Define(flags *flag.FlagSet, redis string) {
	f.Algorithm = "gresil"
	if redis != "" {
		flags.Func("redis", "`HOST:PORT` of a Redis; "+redis, HostPort(&f.Redis))
	}
	flags.Func("vendor", "`URL` of a vendor; without it, the program starts its own", URL(&f.Vendor))
	flags.Func("algorithm", "gresil|"+Control+" (default gresil, and then the control beside it)", func(s string) error {
		f.Alone = true
		return OneOf(&f.Algorithm, "gresil", Control)(s)
	})
	flags.BoolVar(&f.JSON, "json", false, "print one JSON object, of one algorithm")
}

// Whole returns the function of a flag that is a whole number.
func Whole(to *int, least, most int) func(string) error {
	return func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return fmt.Errorf("must be a whole number, %d to %d", least, most)
		}
		*to = n
		return nil
	}
}

// Number returns the function of a flag that is a number.
func Number(to *float64, least, most float64) func(string) error {
	return func(s string) error {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(x) || x < least || x > most {
			return fmt.Errorf("must be a number, %v to %.0f", least, most)
		}
		*to = x
		return nil
	}
}

// OneOf returns the function of a flag that is one of some words.
func OneOf(to *string, words ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("must be %s", strings.Join(words, ", "))
		}
		*to = s
		return nil
	}
}

// HostPort returns the function of a flag that is the address of a server.
func HostPort(to *string) func(string) error {
	return func(s string) error {
		if _, port, err := net.SplitHostPort(s); err != nil || port == "" {
			return errors.New("must be HOST:PORT, such as 127.0.0.1:6379")
		}
		*to = s
		return nil
	}
}

// URL returns the function of a flag that is the URL of a server.
func URL(to *string) func(string) error {
	return func(s string) error {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return errors.New("must be a URL without a query, such as http://127.0.0.1:8090")
		}
		*to = strings.TrimRight(s, "/")
		return nil
	}
}
