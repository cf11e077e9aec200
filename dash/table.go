package dash

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gresil/gresil/internal/registry"
)

// A view is what a page, or its JSON, shows.
type view struct {
	Now      time.Time `json:"now"`
	Process  process   `json:"process"`
	Controls bool      `json:"controls"`
	Tables   []*table  `json:"tables"` // by kind, those that need attention first

	Query query `json:"-"`
	keys  bool
}

// A table has the rows of one kind that a query selects, in order.
type table struct {
	Kind      string            `json:"kind"`
	Total     int               `json:"total"`     // all rows, selected or not
	Matching  int               `json:"matching"`  // rows that contain the text of the query
	Attention int               `json:"attention"` // rows that need attention
	Errors    map[string]string `json:"errors"`    // of instances that could not be read, by name
	Columns   []string          `json:"columns"`
	Rows      []*row            `json:"rows"`

	Query           query `json:"-"` // for the first page of the table, or for the requested page
	First, Last     int   `json:"-"` // the numbers of the first and the last row
	Parts, Controls bool  `json:"-"` // whether there are rows about parts, and rows with verbs
	alarm           registry.Alarm
}

// A row is an instance, or a part of one.
type row struct {
	Name    string          `json:"name"`
	Row     *string         `json:"row"` // nil if it is not shown
	Alarm   string          `json:"alarm"`
	Cells   map[string]cell `json:"cells"` // by column
	Verbs   []string        `json:"verbs"`
	Target  string          `json:"target,omitempty"` // of the controls
	Figures cell            `json:"figures,omitzero"` // if it is the row of the whole instance
	Config  cell            `json:"config,omitzero"`

	of    registry.Row
	in    registry.Entry
	whole bool    // it is the row of the whole instance
	size  float64 // the first number of the cells
}

// look reads the instances.
func (h *Handler) look(ctx context.Context, q query) *view {
	v := &view{Process: h.process, Controls: h.cfg.Controls != nil, Tables: []*table{}, Query: q, keys: h.cfg.Keys}
	for _, r := range h.readings(ctx, q.Kind) {
		if n := len(v.Tables); n == 0 || v.Tables[n-1].Kind != r.Kind {
			t := &table{Kind: r.Kind, Errors: map[string]string{}, Columns: []string{}, Rows: []*row{}, Query: q}
			if q.Kind == "" {
				t.Query = q.Of(r.Kind, 1)
			}
			v.Tables = append(v.Tables, t)
		}
		v.Tables[len(v.Tables)-1].add(r, v)
	}
	v.Now = time.Now().UTC()
	for _, t := range v.Tables {
		t.selects(v)
	}
	slices.SortStableFunc(v.Tables, func(a, b *table) int { return cmp.Compare(b.alarm, a.alarm) })
	return v
}

// add adds the rows of an instance. One of them is about the whole instance.
func (t *table) add(r reading, v *view) {
	all := registry.Row{}
	if r.err != nil {
		t.Errors[r.Name] = v.text(r.err.Error(), true).Full
		t.alarm, all.Alarm = registry.Failing, registry.Failing
	}
	whole := slices.IndexFunc(r.rows, func(r registry.Row) bool { return r.Key == "" })
	if whole < 0 {
		r.rows, whole = append([]registry.Row{all}, r.rows...), 0
	}
	for i, one := range r.rows {
		if t.alarm = max(t.alarm, one.Alarm); one.Alarm > registry.Calm {
			t.Attention++
		}
		t.Rows = append(t.Rows, &row{of: one, in: r.Entry, whole: i == whole, size: t.size(one.Cells)})
	}
}

// size adds the columns of cells to the table, and returns the first number among the cells.
func (t *table) size(cells []registry.Cell) (size float64) {
	found := false
	for i, c := range cells {
		if key := column(c); i >= len(t.Columns) || t.Columns[i] != key && !slices.Contains(t.Columns, key) {
			t.Columns = append(t.Columns, key)
		}
		if n, ok := float(c.Value); ok && !found {
			size, found = n, true
		}
	}
	return size
}

// selects selects, orders and pages the rows.
func (t *table) selects(v *view) {
	t.Total = len(t.Rows)
	if text := strings.ToLower(t.Query.Text); text != "" {
		t.Rows = slices.DeleteFunc(t.Rows, func(r *row) bool { return !r.fill(v).contains(text) })
	}
	t.Matching = len(t.Rows)
	if t.Query.Sort != "" {
		for _, r := range t.Rows {
			r.fill(v)
		}
	}
	slices.SortFunc(t.Rows, t.compare)
	from := min(len(t.Rows), (t.Query.Page-1)*t.Query.Rows)
	t.Rows = t.Rows[from:min(len(t.Rows), from+t.Query.Rows)]
	t.First, t.Last = from+1, from+len(t.Rows)
	for _, r := range t.Rows {
		if r.fill(v).whole {
			r.Figures, r.Config = v.about(r.in)
		}
		t.Parts, t.Controls = t.Parts || !r.whole, t.Controls || len(r.Verbs) > 0
	}
}

// fill fills in what is shown.
func (r *row) fill(v *view) *row {
	if r.Cells != nil {
		return r
	}
	r.Name, r.Alarm, r.Cells, r.Verbs = r.in.Name, alarms[r.of.Alarm], make(map[string]cell, len(r.of.Cells)), []string{}
	for _, c := range r.of.Cells {
		r.Cells[column(c)] = v.cell(c)
	}
	if v.keys || !r.of.Secret {
		r.Row = &r.of.Key
		if v.Controls && len(r.of.Verbs) > 0 {
			r.Verbs, r.Target = r.of.Verbs, r.target()
		}
	}
	return r
}

var alarms = [...]string{"calm", "notice", "failing"} //nolint:gochecknoglobals // a constant

// target identifies the row for a control, in ASCII: in the values of a form, a browser changes line breaks and bytes that are not UTF-8.
func (r *row) target() string {
	return url.Values{"kind": {r.in.Kind}, "name": {r.in.Name}, "row": {r.of.Key}}.Encode()
}

// contains reports whether the name, the key or a text of the row contains text, which is in lower case.
func (r *row) contains(text string) bool {
	in := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	for _, c := range r.Cells {
		if c.Class == "" && in(c.Full) {
			return true
		}
	}
	return in(r.Name) || r.Row != nil && in(*r.Row)
}

// About names the row for people.
func (r *row) About() string {
	return strings.TrimSpace(visible(r.in.Name) + " " + short(visible(r.of.Key)))
}

// compare orders by the column of the query, with unknown values last, and then by attention.
func (t *table) compare(a, b *row) (by int) {
	key, desc := strings.CutPrefix(t.Query.Sort, "-")
	x, y := a.Cells[key], b.Cells[key]
	name := cmp.Or(strings.Compare(a.in.Name, b.in.Name), strings.Compare(a.of.Key, b.of.Key))
	switch {
	case key == "name":
		by = name
	case x.value == nil && y.value != nil:
		return 1
	case y.value == nil && x.value != nil:
		return -1
	default:
		by = cmp.Or(cmp.Compare(x.n, y.n), strings.Compare(x.Full, y.Full))
	}
	if desc {
		by = -by
	}
	return cmp.Or(by, cmp.Compare(b.of.Alarm, a.of.Alarm), cmp.Compare(b.size, a.size), name)
}
