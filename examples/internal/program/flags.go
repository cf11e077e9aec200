package program

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
)

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
		for _, word := range words {
			if s == word {
				*to = s
				return nil
			}
		}
		return fmt.Errorf("must be %s", strings.Join(words, ", "))
	}
}

// Bool returns the function of a flag that is true or false.
func Bool(to *bool) func(string) error {
	return func(s string) (err error) {
		if *to, err = strconv.ParseBool(s); err != nil {
			return errors.New("must be true or false")
		}
		return nil
	}
}

// VendorURL returns the function of a flag that is the URL of a vendor.
func VendorURL(to *string) func(string) error {
	return func(s string) error {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return errors.New("must be a URL without a query, such as http://127.0.0.1:8090")
		}
		*to = strings.TrimRight(s, "/")
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
