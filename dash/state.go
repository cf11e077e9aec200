package dash

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A state is the JSON of a page.
type state struct {
	V        int               `json:"v"`
	Now      time.Time         `json:"now"`
	Boot     string            `json:"boot"`
	Process  process           `json:"process"`
	Controls bool              `json:"controls"`
	Page     statePage         `json:"page"`
	Totals   map[string]total  `json:"totals"` // by kind of table
	Rows     []json.RawMessage `json:"rows"`
	Errors   []problem         `json:"errors"`
}

type statePage struct {
	Kind    string `json:"kind"`
	Text    string `json:"q"`
	Sort    string `json:"sort"`
	Dir     string `json:"dir"`
	Page    int    `json:"page"`
	Rows    int    `json:"n"`
	LeftOut int    `json:"left_out"` // rows that match, and are on other pages
}

// A total counts the rows of a table.
type total struct {
	Rows      int `json:"rows"`
	Attention int `json:"attention"`
	Matching  int `json:"matching"`
	Shown     int `json:"shown"`
}

// state serves the JSON.
func (h *Handler) state(w http.ResponseWriter, r *http.Request) {
	q, v, tables, err := h.query(r)
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	s := state{
		V: 1, Now: v.now.UTC(), Boot: h.process.Boot, Process: h.process, Controls: h.cfg.Controls,
		Page:   statePage{Kind: q.kind, Text: q.text, Sort: q.sort, Dir: "asc", Page: q.page, Rows: q.rows},
		Totals: map[string]total{}, Rows: []json.RawMessage{}, Errors: []problem{},
	}
	if q.desc {
		s.Page.Dir = "desc"
	}
	for _, t := range tables {
		s.Totals[t.kind] = total{Rows: t.total, Attention: t.alarming, Matching: t.matching, Shown: len(t.rows)}
		s.Page.LeftOut += t.matching - len(t.rows)
		s.Errors = append(s.Errors, t.problems...)
		for i := range t.rows {
			object, err := json.Marshal(t.json(&t.rows[i]))
			if err != nil { // a figure that is not a number, or a time after the year 9999
				s.Errors = append(s.Errors, problem{Kind: t.rows[i].kind, Name: t.rows[i].name, Error: err.Error()})
				continue
			}
			s.Rows = append(s.Rows, object)
		}
	}
	writeJSON(w, http.StatusOK, "application/json", s)
}

// writeJSON sends v. An error of the connection ends the response; there is no reader for it.
func writeJSON(w http.ResponseWriter, status int, mediaType string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"title":"the state cannot be encoded"}`)
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

// wantsJSON reports whether the client prefers JSON to HTML.
func wantsJSON(r *http.Request) bool {
	html, object := 0.0, 0.0
	for _, line := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(line, ",") {
			media, params, _ := strings.Cut(part, ";")
			weight := 1.0
			if _, q, ok := strings.Cut(params, "q="); ok {
				q, _, _ = strings.Cut(q, ";")
				weight, _ = strconv.ParseFloat(strings.TrimSpace(q), 64) // 0 if it is not a number
			}
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "text/html", "application/xhtml+xml":
				html = max(html, weight)
			case "application/json", "application/problem+json":
				object = max(object, weight)
			}
		}
	}
	return object > html
}

// A problemDetails is the body of an error (RFC 9457).
type problemDetails struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// fail sends an error, as problem details to a client of JSON, and otherwise as a page.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, status int, detail string) {
	mediaType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if p := route(r); wantsJSON(r) || p == "/api/state" || p == "/api/control" && mediaType == "application/json" {
		writeJSON(w, status, "application/problem+json", problemDetails{http.StatusText(status), status, detail})
		return
	}
	h.render(w, status, "error", errorPage{frame: h.frame(r), Status: status, Name: http.StatusText(status), Detail: visible(detail)})
}
