package dash

import (
	"bytes"
	"cmp"
	"net/http"
	"strconv"
	"strings"
)

// A frame is the part that all pages share. Root is the relative path from the page to the
// handler: every address begins with it.
type frame struct {
	Title, Root string
	Style, Icon string // hashes
	Process     process
}

func (h *Handler) frame(r *http.Request) frame {
	all := loaded()
	f := frame{Title: h.cfg.title(), Root: "./", Style: all["app.css"].hash, Icon: all["icon.svg"].hash, Process: h.process}
	if strings.HasSuffix(r.URL.Path, "/api/control") || strings.HasSuffix(r.URL.Path, "/api/state") || r.URL.Path == "api/control" {
		f.Root = "../"
	}
	return f
}

// An errorPage is the page of an error.
type errorPage struct {
	frame
	Status       int
	Name, Detail string
}

// A mainPage is the page of the state.
type mainPage struct {
	frame
	Now      cell
	Text     string
	Rows     int
	Kind     string
	Refresh  int
	Controls bool
	Done     string
	All      string // link to all tables
	Pause    string // link to the page with and without refresh
	Tables   []tableHTML
	Empty    bool // there is no instance
}

type tableHTML struct {
	Kind, Title    string
	Link           string
	Total          int
	Attention      int
	Matching       int
	Controls       bool
	Heads          []head
	Rows           []rowHTML
	Problems       []problem
	First, Last    int
	Before, Behind string // links to other pages
}

type head struct {
	Label, Link, Sort string // Sort is the value of aria-sort, or empty
}

type rowHTML struct {
	Name    cell
	Cells   []cell
	Target  string // of the controls
	Back    string // query of this page
	Buttons []button
}

type button struct{ Verb, Label, About string }

// page serves the page, or JSON to a client that prefers it.
func (h *Handler) page(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if wantsJSON(r) {
		h.state(w, r)
		return
	}
	q, v, tables, err := h.query(r)
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	if q.refresh > 0 {
		w.Header().Set("Refresh", strconv.Itoa(q.refresh)+"; url=./"+q.String())
	}
	p := mainPage{
		frame: h.frame(r), Now: cell{Text: stamp(v.now)}, Text: q.text, Rows: q.rows, Kind: q.kind, Refresh: q.refresh,
		Controls: h.cfg.Controls, Done: doneText(r.URL.Query().Get("done")), All: "./" + q.of("", 1).String(),
	}
	other := q
	if other.refresh = 5; q.refresh > 0 {
		other.refresh = 0
	}
	p.Pause = "./" + other.String()
	p.Empty = true
	for _, t := range tables {
		p.Tables = append(p.Tables, h.tableHTML(t, q))
		p.Empty = p.Empty && t.total == 0 && len(t.problems) == 0
	}
	h.render(w, http.StatusOK, "main", p)
}

func (h *Handler) tableHTML(t *table, q query) tableHTML {
	page := 1
	if q.kind == t.kind {
		page = q.page
	}
	x := tableHTML{
		Kind: t.kind, Title: t.title, Link: "./" + q.of(t.kind, 1).String(), Total: t.total, Attention: t.alarming, Matching: t.matching,
		Problems: t.problems, Controls: h.cfg.Controls && t.plans != nil, Heads: []head{heading(q, t.kind, "name", "Name")},
	}
	if len(t.rows) > 0 {
		x.First = (page-1)*q.rows + 1
		x.Last = x.First + len(t.rows) - 1
	}
	if page > 1 {
		x.Before = "./" + q.of(t.kind, page-1).String()
	}
	if page*q.rows < t.matching {
		x.Behind = "./" + q.of(t.kind, page+1).String()
	}
	for _, c := range t.columns {
		if c.label != "" {
			x.Heads = append(x.Heads, heading(q, t.kind, c.key, c.label))
		}
	}
	for i := range t.rows {
		x.Rows = append(x.Rows, h.rowHTML(t, &t.rows[i], q))
	}
	return x
}

// heading is the head of a column, with a link that sorts by it, or turns the order around.
func heading(q query, kind, key, label string) head {
	sorted := q.of(kind, 1)
	x := head{Label: label}
	if q.kind == kind && q.sort == key {
		x.Sort = "ascending"
		if q.desc {
			x.Sort = "descending"
		}
		sorted.desc = !q.desc
	} else {
		sorted.sort, sorted.desc = key, false
	}
	x.Link = "./" + sorted.String()
	return x
}

func (h *Handler) rowHTML(t *table, r *row, q query) rowHTML {
	x := rowHTML{Name: text(r.name), Target: r.target().encode(), Back: q.String()}
	for i, c := range t.columns {
		if c.label != "" {
			x.Cells = append(x.Cells, r.shown()[i])
		}
	}
	if h.cfg.Controls {
		for _, name := range r.verbs {
			v, _ := verbOf(name)
			label := cmp.Or(t.labels[name], v.label)
			x.Buttons = append(x.Buttons, button{Verb: name, Label: label, About: label + " " + r.target().String()})
		}
	}
	return x
}

// render sends a page. It is complete before its first byte is sent.
func (h *Handler) render(w http.ResponseWriter, status int, name string, data any) {
	var page bytes.Buffer
	if err := templates().ExecuteTemplate(&page, name, data); err != nil {
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(page.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes())
}
