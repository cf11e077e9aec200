package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// A row is what passed in one second of the limiter.
type row struct {
	second  int64 // since 1970
	servers []int64
	total   int64
}

// seconds puts each grant into one of the seconds in which it may have been. If there is a way to do
// so with no second above the limit, this is one: of those that may be in a second, the ones that
// cannot be in a later one come first, and the others wait when it is full. So a second above the
// limit is no matter of when requests were seen: the limit did not hold.
func seconds(grants []grant, from, to int64, servers int, limit int64) []row {
	grants = slices.Clone(grants)
	slices.SortFunc(grants, func(a, b grant) int { return cmp.Compare(a.last, b.last) })
	var rows []row
	for second := from; second <= to; second++ {
		r := row{second: second, servers: make([]int64, servers)}
		grants = slices.DeleteFunc(grants, func(g grant) bool {
			here := g.first <= second && (g.last <= second || r.total < limit)
			if here {
				r.servers[g.server]++
				r.total++
			}
			return here
		})
		rows = append(rows, r)
	}
	return rows
}

func printRows(w io.Writer, rows []row, limit int64) {
	if len(rows) == 0 {
		return
	}
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprint(tw, "  SECOND")
	for i := range rows[0].servers {
		fmt.Fprintf(tw, "\tSERVER %d", i+1)
	}
	fmt.Fprintln(tw, "\tTOGETHER")
	for _, r := range rows {
		fmt.Fprint(tw, "  ", time.Unix(r.second, 0).Format(time.TimeOnly))
		for _, n := range r.servers {
			fmt.Fprintf(tw, "\t%d", n)
		}
		fmt.Fprintf(tw, "\t%d of %d", r.total, limit)
		if r.total > limit {
			fmt.Fprint(tw, " ABOVE")
		}
		fmt.Fprintln(tw)
	}
	_ = tw.Flush() // to standard output
}

// judge says that the limit held, or why that was not shown.
func judge(rows []row, limit int64) (verdict string, err error) {
	var above, reached int
	var most int64
	for _, r := range rows {
		most = max(most, r.total)
		if r.total > limit {
			above++
		}
		if r.total >= limit {
			reached++
		}
	}
	switch {
	case above > 0:
		return "", fmt.Errorf("%d of %d seconds were above the limit of %d, by up to %d", above, len(rows), limit, most-limit)
	case reached == 0:
		return "", fmt.Errorf("no second reached the limit of %d, which shows nothing: a smaller -limit or a longer -duration would", limit)
	}
	return fmt.Sprintf("no second was above the limit of %d, %d of %d reached it", limit, reached, len(rows)), nil
}
