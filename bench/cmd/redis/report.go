package main

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/gresil/gresil/bench"
)

// A result is a line of the table: ours in one mode, the floor (a plain GCRA, or plain asynq) and redis_rate. What there is none of
// is nil. It is microseconds of the server's processor time for a decision, unless the name of the row
// ends in another unit in brackets.
type result struct {
	Row       string   `json:"row"`
	Ours      *float64 `json:"ours"`
	Floor     *float64 `json:"floor"`
	RedisRate *float64 `json:"redis_rate"`
}

// resultsOf makes a result for each of our modes and each unit. Measured is nil for the names alone.
func resultsOf(r bench.Row, measured []bench.Measurement) []result {
	var results []result
	modes := 0
	for _, s := range r.Subjects {
		if s.Role == bench.Ours {
			modes++
		}
	}
	for u, unit := range r.Units {
		value := func(of func(bench.Subject) bool) *float64 {
			for i := range measured {
				if of(measured[i].Subject) {
					return &measured[i].CPU[u]
				}
			}
			return nil
		}
		for _, s := range r.Subjects {
			if s.Role != bench.Ours {
				continue
			}
			name := r.Name
			if modes > 1 {
				name += ", " + s.Name
			}
			if u > 0 || modes == 1 {
				name += " [" + unit.Name + "]"
			}
			results = append(results, result{
				Row: name, Ours: value(func(of bench.Subject) bool { return of.Name == s.Name }),
				Floor:     value(func(of bench.Subject) bool { return of.Role == bench.Floor }),
				RedisRate: value(func(of bench.Subject) bool { return of.Role == bench.Peer }),
			})
		}
	}
	return results
}

// A bar is how one figure is to stand to another.
type bar struct {
	row   string
	least bool // the bound is the least quotient, not the highest
	bound float64
	of    string // floor, redis_rate, or the row of our own
}

func bars() []bar {
	const vendor, vendors = "a vendor's limit, 1 key", "a vendor's limit, 10,000 keys"
	const keys, cluster = "token bucket, 10,000 keys, allowed", "Cluster of three: token bucket, 10,000 keys, allowed"
	const one, many = "token bucket, 10,000 keys, 1 caller", "token bucket, 10,000 keys, 256 callers"
	const hot, cold, speed = "token bucket, 100 hot keys, allowed", "token bucket, 1,000,000 cold keys, allowed", " [decisions/s]"
	all := []bar{
		{row: keys + ", strict", bound: 0.8, of: "redis_rate"},
		{row: keys + ", coalesced", bound: 0.5, of: keys + ", strict"},
		{row: cluster + ", coalesced", bound: 0.65, of: cluster + ", strict"},
		{row: vendor + ", permit of a gate", bound: 1.3, of: vendor + ", strict"},
		{row: vendors + ", permit of a gate", bound: 1.3, of: vendors + ", strict"},
		{row: keys + ", strict" + speed, least: true, bound: 1.2, of: "redis_rate"},
		{row: one + ", strict" + speed, least: true, bound: 1.1, of: "redis_rate"},
		{row: one + ", coalesced" + speed, least: true, bound: 0.95, of: "redis_rate"},
		{row: many + ", coalesced" + speed, least: true, bound: 3, of: "redis_rate"},
		{row: hot + ", lease" + speed, least: true, bound: 30, of: "redis_rate"},
		{row: cold + ", lease" + speed, least: true, bound: 0.9, of: cold + ", strict" + speed},
	}
	for _, of := range []struct {
		kind  string
		bound float64
	}{
		{"token bucket", 2.5},
		{"fixed window", 2.5},
		{"sliding counter", 1.5},
		{"sliding window", 1.5},
		{"sliding log of few", 1.5},
		{"bucket and window", 1.5},
	} {
		all = append(all, bar{row: of.kind + ", 10,000 keys, allowed, coalesced" + speed, least: true, bound: of.bound, of: "redis_rate"})
	}
	return all
}

// stands returns the line of a bar, or nothing if it was not measured.
func (b bar) stands(results []result) string {
	find := func(row string) result {
		for _, r := range results {
			if r.Row == row {
				return r
			}
		}
		return result{}
	}
	ours := find(b.row)
	var other *float64
	switch b.of {
	case "floor":
		other = ours.Floor
	case "redis_rate":
		other = ours.RedisRate
	default:
		other = find(b.of).Ours
	}
	if ours.Ours == nil || other == nil {
		return ""
	}
	q, sign := *ours.Ours / *other, "≤"
	holds := q <= b.bound
	if b.least {
		sign, holds = "≥", q >= b.bound
	}
	says := "holds"
	if !holds {
		says = "DOES NOT HOLD"
	}
	return fmt.Sprintf("| %s | %s %v × %s | %.2f | %s |\n", b.row, sign, b.bound, b.of, q, says)
}

func writeTable(w io.Writer, results []result) {
	fmt.Fprint(w, "| row | ours | floor | redis_rate | ours/floor | ours/redis_rate |\n| --- | --: | --: | --: | --: | --: |\n")
	for _, r := range results {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", r.Row, number(r.Ours), number(r.Floor), number(r.RedisRate), number(quotient(r.Ours, r.Floor)), number(quotient(r.Ours, r.RedisRate)))
	}
	var lines strings.Builder
	for _, b := range bars() {
		lines.WriteString(b.stands(results))
	}
	if lines.Len() > 0 {
		fmt.Fprintf(w, "\n| bar | asked | is | |\n| --- | --- | --: | --- |\n%s", lines.String())
	}
}

// quotient is a / b, or nil where there is none.
func quotient(a, b *float64) *float64 {
	if a == nil || b == nil || *b == 0 {
		return nil
	}
	q := *a / *b
	return &q
}

// number is v with three digits or so, or a dash.
func number(v *float64) string {
	switch {
	case v == nil:
		return "–"
	case math.Abs(*v) >= 100 || *v == math.Round(*v):
		return fmt.Sprintf("%.0f", *v)
	case math.Abs(*v) >= 10:
		return fmt.Sprintf("%.1f", *v)
	}
	return fmt.Sprintf("%.2f", *v)
}
