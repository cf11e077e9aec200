package dash

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

// A section describes the table of one kind of instances. A new kind is one more section.
type section struct {
	kind, title string
	columns     []column
	labels      map[string]string // of verbs, if they differ
	// reads returns a function that reads the rows of an instance, or nil if the section
	// does not show it.
	reads func(e registry.Entry) reader
	// plans returns the planner of the controls of an instance, or nil. It may be nil.
	plans func(instance any) planner
}

// A column has a key in JSON and a label on the page.
type column struct {
	key, label string // with an empty label, it is in JSON only
}

// A view has the time of a page, and whether it shows keys.
type view struct {
	now  time.Time
	keys bool
}

// A row is an instance, or a part of one, such as a group.
type row struct {
	kind, name string
	option     string
	cells      []cell        // of the columns; read them with shown
	fills      func() []cell // makes the cells when they are needed, if there can be many rows
	rank       int           // 0 if all is well, above if it needs attention
	volume     float64
	verbs      []string // that its state permits
}

// A table has the rows of a section that the query selects, in order.
type table struct {
	*section
	rows     []row
	total    int // rows before the query selected
	matching int // rows that contain the text of the query
	alarming int // rows that need attention
	problems []problem
}

// A problem is an instance that could not be read.
type problem struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Error string `json:"error"`
}

// shown returns the cells.
func (r *row) shown() []cell {
	if r.cells == nil && r.fills != nil {
		r.cells = r.fills()
	}
	return r.cells
}

// contains reports whether the name, the option or a text of the row contains the text, in lower case.
func (r *row) contains(text string) bool {
	in := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	if in(r.name) || in(r.option) {
		return true
	}
	return slices.ContainsFunc(r.shown(), func(c cell) bool {
		s, ok := c.value.(string)
		return ok && in(s)
	})
}

// apply selects, orders and pages the rows.
func (t *table) apply(q query) error {
	t.total = len(t.rows)
	for i := range t.rows {
		if t.rows[i].rank > 0 {
			t.alarming++
		}
	}
	if q.text != "" {
		text := strings.ToLower(q.text)
		t.rows = slices.DeleteFunc(t.rows, func(r row) bool { return !r.contains(text) })
	}
	t.matching = len(t.rows)
	compare, err := t.order(q)
	if err != nil {
		return err
	}
	slices.SortFunc(t.rows, compare)
	page := 1
	if q.kind == t.kind {
		page = q.page
	}
	from := min(len(t.rows), (page-1)*q.rows)
	t.rows = t.rows[from:min(len(t.rows), from+q.rows)]
	return nil
}

// order returns the comparison of rows that the query wants. Names and options break ties, so
// that the order of a page is always the same.
func (t *table) order(q query) (func(a, b row) int, error) {
	tie := func(a, b row) int {
		return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.name, b.name), strings.Compare(a.option, b.option))
	}
	if q.kind != t.kind || q.sort == "" {
		return func(a, b row) int {
			return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(b.volume, a.volume), tie(a, b))
		}, nil
	}
	sign := 1
	if q.desc {
		sign = -1
	}
	if q.sort == "name" {
		return func(a, b row) int { return sign * tie(a, b) }, nil
	}
	at := slices.IndexFunc(t.columns, func(c column) bool { return c.key == q.sort })
	if at < 0 {
		return nil, &queryError{"sort", q.sort, "must be name or one of " + strings.Join(t.keys(), ", ")}
	}
	for i := range t.rows {
		t.rows[i].shown()
	}
	return func(a, b row) int {
		x, y := a.cells[at].key(), b.cells[at].key()
		if x == nil || y == nil { // last in both directions
			return cmp.Or(order(x, y), tie(a, b))
		}
		return cmp.Or(sign*order(x, y), tie(a, b))
	}, nil
}

func (t *table) keys() (keys []string) {
	for _, c := range t.columns {
		keys = append(keys, c.key)
	}
	return keys
}

// json returns a row as an object.
func (t *table) json(r *row) map[string]any {
	object := map[string]any{"kind": r.kind, "name": r.name}
	if t.plans != nil {
		object["target"], object["verbs"] = r.target().encode(), append([]string{}, r.verbs...)
	}
	for i, c := range t.columns {
		object[c.key] = r.shown()[i].value
	}
	return object
}
