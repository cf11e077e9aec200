package demo

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
)

// Flags has the values of the flags that all programs with a vendor have.
type Flags struct {
	Vendor    string // URL; "" is a process of our own
	Redis     string // HOST:PORT; "" is a process of our own, if one is needed
	Algorithm string // "" is gresil, and then the control beside it
	JSON      bool
}

// Control is the algorithm without a limit.
const Control = "naive"

// Define adds the flags, with -redis if a Redis can be needed.
func (f *Flags) Define(flags *flag.FlagSet, redis bool) {
	if redis {
		flags.StringVar(&f.Redis, "redis", "", "`HOST:PORT` of a Redis; without it, the program starts its own, if it needs one")
	}
	flags.StringVar(&f.Vendor, "vendor", "", "`URL` of a vendor; without it, the program starts its own")
	flags.Func("algorithm", "gresil|"+Control+" (default gresil, and then the control beside it)", OneOf(&f.Algorithm, "gresil", Control))
	flags.BoolVar(&f.JSON, "json", false, "print one JSON object, of one algorithm")
}

// Number defines a flag that is a number. Its default is the present value.
func Number[T int | float64](flags *flag.FlagSet, to *T, name string, least, most T, usage string) {
	kind := "number"
	if _, whole := any(least).(int); whole {
		kind = "whole number"
	}
	flags.Func(name, fmt.Sprintf("%s (default %v)", usage, *to), func(s string) error {
		x := least - 1 // a null does not change it
		if json.Unmarshal([]byte(s), &x) != nil || x < least || x > most {
			return fmt.Errorf("must be a %s, %v to %v", kind, least, most)
		}
		*to = x
		return nil
	})
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
