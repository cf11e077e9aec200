package dash

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
)

const maxQuery = 2 << 10

// A query selects and orders rows. The template uses its methods too.
type query struct {
	Kind    string // of the instances; if empty, all
	Text    string // selects the rows that contain it
	Sort    string // key of a column, descending after a "-"; if empty, the rows that need attention are first
	Page    int    // from 1
	Rows    int    // of a page
	Refresh int    // seconds, or 0
	Done    string // not empty for the page after a control
}

// parseQuery parses a query. The error names a part that cannot be used; that part gets its default.
func parseQuery(raw string) (q query, err error) {
	values, bad := url.ParseQuery(raw)
	if bad != nil || len(raw) > maxQuery {
		values, err = nil, fmt.Errorf("query: must be valid, and at most %d bytes", maxQuery)
	}
	q = query{Kind: values.Get("kind"), Text: values.Get("q"), Sort: values.Get("sort"), Done: values.Get("done")}
	number := func(field string, zero, low, high int) int {
		text := cmp.Or(values.Get(field), strconv.Itoa(zero))
		n, bad := strconv.Atoi(text)
		if bad != nil || n < low || n > high {
			err = fmt.Errorf("query %s = %q: must be %d to %d", field, short(text), low, high)
			return zero
		}
		return n
	}
	q.Page, q.Rows, q.Refresh = number("page", 1, 1, 1<<20), number("n", 100, 1, 500), number("refresh", 0, 0, 3600)
	return q, err
}

// String encodes the query, without its defaults, as a relative address.
func (q query) String() string {
	values := url.Values{}
	set := func(field, value, zero string) {
		if value != zero {
			values.Set(field, value)
		}
	}
	set("kind", q.Kind, "")
	set("q", q.Text, "")
	set("sort", q.Sort, "")
	set("done", q.Done, "")
	set("page", strconv.Itoa(q.Page), "1")
	set("n", strconv.Itoa(q.Rows), "100")
	set("refresh", strconv.Itoa(q.Refresh), "0")
	return "./?" + values.Encode()
}

// Of returns the query for a page of one kind.
func (q query) Of(kind string, page int) query {
	if q.Kind != kind {
		q.Sort = ""
	}
	q.Kind, q.Page, q.Done = kind, page, ""
	return q
}

// Turn returns the query for another page.
func (q query) Turn(by int) query { return q.Of(q.Kind, q.Page+by) }

// By returns the query that sorts by a column, in reverse if q already does.
func (q query) By(key string) query {
	if q.Sort == key {
		key = "-" + key
	}
	q = q.Of(q.Kind, 1)
	q.Sort = key
	return q
}

// Order returns the value of aria-sort for a column.
func (q query) Order(key string) string {
	return map[string]string{key: "ascending", "-" + key: "descending"}[q.Sort]
}
