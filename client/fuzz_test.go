package client_test

import (
	"math"
	"math/big"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gresil/gresil/client"
)

var decimal = regexp.MustCompile(`^(?:[0-9]+\.?[0-9]*|\.[0-9]+)$`)

// exact returns a number that is not negative.
func exact(s string) (*big.Rat, bool) {
	s = strings.Trim(s, " \t\r\n")
	if !decimal.MatchString(s) {
		return nil, false
	}
	n, ok := new(big.Rat).SetString("0" + s)
	return n, ok
}

// wait returns n, as multiples of the unit, in nanoseconds, or nil if s is no number.
func wait(s string, unit time.Duration) *big.Rat {
	n, ok := exact(s)
	if !ok {
		return nil
	}
	return n.Mul(n, big.NewRat(int64(unit), 1))
}

func zero(s string) bool {
	n, ok := exact(s)
	return ok && n.Sign() == 0
}

// model is what a response says, in exact arithmetic, or nil.
func model(status int, h http.Header, now time.Time) *big.Rat {
	date := func(s string) (time.Time, bool) {
		s = strings.Trim(s, " \t\r\n")
		for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", "Mon, 02 Jan 2006 15:04:05 UTC", "Monday, 02-Jan-06 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 UTC", time.ANSIC, "Mon, 02 Jan 2006 15:04:05 -0700"} {
			if at, err := time.Parse(layout, s); err == nil {
				return at, true
			}
		}
		return time.Time{}, false
	}
	if at, ok := date(h.Get("Date")); ok {
		now = at
	}
	since := func(at *big.Rat) *big.Rat { // seconds, of nanoseconds
		at.Sub(at, big.NewRat(now.Unix(), 1)).Mul(at, big.NewRat(1e9, 1))
		return at.Sub(at, big.NewRat(int64(now.Nanosecond()), 1))
	}
	longest := func(waits ...*big.Rat) (most *big.Rat) {
		for _, w := range waits {
			if w != nil && w.Sign() > 0 && (most == nil || w.Cmp(most) > 0) {
				most = w
			}
		}
		return most
	}
	if status >= 400 {
		if w := longest(wait(h.Get("Retry-After-Ms"), time.Millisecond)); w != nil {
			return w
		}
		w := wait(h.Get("Retry-After"), time.Second)
		if at, ok := date(h.Get("Retry-After")); ok {
			w = since(big.NewRat(at.Unix()+1, 1))
		}
		if w = longest(w); w != nil {
			return w
		}
	}
	if age, ok := exact(h.Get("Age")); ok && age.Sign() > 0 {
		return nil
	}
	for _, prefix := range []string{"RateLimit-", "X-RateLimit-"} {
		at, ok := exact(h.Get(prefix + "Reset"))
		if !ok || !zero(h.Get(prefix+"Remaining")) {
			continue
		}
		var w *big.Rat
		switch whole := new(big.Int).Quo(at.Num(), at.Denom()); {
		case whole.Cmp(big.NewInt(1e9)) < 0:
			w = at.Mul(at, big.NewRat(1e9, 1))
		case whole.Cmp(big.NewInt(1e12)) < 0:
			w = since(at)
		default:
			w = since(at.Quo(at, big.NewRat(1000, 1)))
		}
		if w = longest(w); w != nil {
			return w
		}
	}
	return nil
}

// What is said is never shortened, whatever is there, and is what exact arithmetic says.
func FuzzRetryAfter(f *testing.F) {
	const date = "Thu, 01 Jan 2026 00:00:00 GMT"
	add := func(status int, fields ...string) {
		h := saying(status, fields...).Header
		f.Add(status, h.Get("Retry-After"), h.Get("Retry-After-Ms"), h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset"), h.Get("Date"), h.Get("Age"), h.Get("Draft") != "")
	}
	for _, s := range []string{
		"120", "-1", "1.5", "2.0", "0", "9223372036", "9223372036.9", "9223372037", "99999999999999999999", "0.0000000001", " 3\t", "5,6", "\x00", "1e3",
		"0.0", "007", "64.57", "1.00000000010", "1.000000001", "0.9999999999", "18446744073709551616", "18446744073709551617", " ", ".", "-0.5", "1.5.5",
		"1,5", "0x10", "Inf", "5s", "5, 10", "+5",
		"Thu, 01 Jan 2026 00:00:30 GMT", "Thursday, 01-Jan-26 00:00:30 GMT", "Thu Jan  1 00:00:30 2026", "Thu, 01 Jan 2026 00:00:30 UTC", "Thu, 01 Jan 2026 00:00:30 +0100", "Thursday, 01-Jan-26 00:00:30 PST", "Fri, 31 Dec 9999 23:59:59 GMT",
	} {
		add(429, "Retry-After: "+s)
		add(403, "Retry-After: "+s, "Date: "+date)
		add(200, "Retry-After: "+s)
		add(503, "Retry-After-Ms: "+s, "Retry-After: 7")
	}
	for _, s := range []string{"0", "60", "60.5", "999999999", "999999999.999", "1000000000", "1767225660", "1767225660.5", "999999999999", "1000000000000", "1767225660123", "1767225660123456", "9223372036854775808", "-1", "+1", "", "999999999.5", "1767225660007.5", "1767225600", "99999999999999999999", "soon", " 60\t"} {
		add(200, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: "+s, "Date: "+date)
		add(429, "X-RateLimit-Remaining: 0.0", "X-RateLimit-Reset: "+s, "Draft: 1")
		add(429, "X-RateLimit-Remaining: 1", "X-RateLimit-Reset: "+s, "Date: yesterday", "Age: 0")
		for _, remaining := range []string{"0.5", "-1", "none", "\t0 "} {
			add(200, "X-RateLimit-Remaining: "+remaining, "X-RateLimit-Reset: "+s)
		}
	}
	f.Fuzz(func(t *testing.T, status int, retryAfter, millis, remaining, reset, date, age string, draft bool) {
		prefix := "X-RateLimit-"
		if draft {
			prefix = "RateLimit-"
		}
		h := http.Header{}
		for name, value := range map[string]string{
			"Retry-After": retryAfter, "Retry-After-Ms": millis, prefix + "Remaining": remaining, prefix + "Reset": reset, "Date": date, "Age": age,
		} {
			if value != "" {
				h.Set(name, value)
			}
		}
		before := model(status, h, time.Now())
		got, ok := client.RetryAfter(&http.Response{StatusCode: status, Header: h})
		after := model(status, h, time.Now())
		if ok != (got > 0) || got < 0 {
			t.Fatalf("%v: %v, %v", h, got, ok)
		}
		limits := func(r *big.Rat) int64 { // rounded up, saturated
			if r == nil {
				return 0
			}
			n, m := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
			if m.Sign() > 0 {
				n.Add(n, big.NewInt(1))
			}
			if !n.IsInt64() {
				return math.MaxInt64
			}
			return n.Int64()
		}
		if least, most := limits(after), limits(before); int64(got) < least || int64(got) > most { // they differ by the time between
			t.Fatalf("%d %v: %v, want %v to %v", status, h, got, time.Duration(least), time.Duration(most))
		}
	})
}
