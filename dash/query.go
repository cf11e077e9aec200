package dash

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	defaultRows = 100
	maxRows     = 500
	maxRefresh  = 3600
	maxQuery    = 2 << 10
	maxPage     = 1 << 20
)

// A query selects and orders rows.
type query struct {
	kind    string // if empty, all
	text    string // that a row contains
	sort    string // key of a column; if empty, the rows that need attention are first
	desc    bool
	page    int // from 1
	rows    int // of a page
	refresh int // seconds, or 0
}

// A queryError names a part of the query that cannot be used.
type queryError struct{ field, value, reason string }

func (e *queryError) Error() string {
	return fmt.Sprintf("query %s = %q: %s", e.field, short(e.value), e.reason)
}

// parseQuery reads a query. kinds are the kinds of the tables.
func parseQuery(raw string, kinds []string) (q query, err error) {
	if len(raw) > maxQuery {
		return q, &queryError{"length", strconv.Itoa(len(raw)), fmt.Sprintf("must be at most %d bytes", maxQuery)}
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, &queryError{"encoding", "", "must be a valid URL query"}
	}
	q = query{kind: values.Get("kind"), text: values.Get("q"), sort: values.Get("sort"), desc: values.Get("dir") == "desc"}
	number := func(field string, zero, low, high int) int {
		text := values.Get(field)
		if text == "" {
			return zero
		}
		n, bad := strconv.Atoi(text)
		if bad != nil || n < low || n > high {
			err = &queryError{field, text, fmt.Sprintf("must be %d to %d", low, high)}
		}
		return n
	}
	q.page, q.rows, q.refresh = number("page", 1, 1, maxPage), number("n", defaultRows, 1, maxRows), number("refresh", 0, 0, maxRefresh)
	if q.kind != "" && !slices.Contains(kinds, q.kind) {
		err = &queryError{"kind", q.kind, "must be " + strings.Join(kinds, ", ") + ", or empty"}
	}
	if dir := values.Get("dir"); dir != "" && dir != "asc" && dir != "desc" {
		err = &queryError{"dir", dir, "must be asc or desc"}
	}
	if q.kind == "" && (q.sort != "" || q.page != 1) {
		err = &queryError{"kind", "", "must be set with sort and page"}
	}
	return q, err
}

// String encodes the query, without its defaults. It begins with a question mark.
func (q query) String() string {
	values := url.Values{}
	set := func(field, value string, differs bool) {
		if differs {
			values.Set(field, value)
		}
	}
	set("kind", q.kind, q.kind != "")
	set("q", q.text, q.text != "")
	set("sort", q.sort, q.sort != "")
	set("dir", "desc", q.desc)
	set("page", strconv.Itoa(q.page), q.page != 1)
	set("n", strconv.Itoa(q.rows), q.rows != defaultRows)
	set("refresh", strconv.Itoa(q.refresh), q.refresh != 0)
	return "?" + values.Encode()
}

// of returns the query for a page of one kind.
func (q query) of(kind string, page int) query {
	if q.kind != kind {
		q.sort, q.desc = "", false
	}
	q.kind, q.page = kind, page
	return q
}
