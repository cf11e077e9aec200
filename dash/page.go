package dash

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the files of the page
	"encoding/base64"
	"encoding/json"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

//go:embed page.html
var html string

//go:embed app.css
var css string

//go:embed icon.svg
var icon []byte

// templates are parsed at their first use, so that a program that does not serve the page does not spend time on them.
var templates = sync.OnceValue(func() *template.Template { //nolint:gochecknoglobals // a constant
	functions := template.FuncMap{"style": style, "visible": visible, "short": short, "label": label, "stamp": stamp}
	return template.Must(template.New("").Funcs(functions).Parse(html))
})

// A sheet is the style of all pages. The Content-Security-Policy permits it by its hash.
type sheet struct {
	CSS  template.CSS
	Icon template.URL
	hash string
}

var style = sync.OnceValue(func() sheet { //nolint:gochecknoglobals // a constant
	sum := sha256.Sum256([]byte(css))
	text := base64.StdEncoding.EncodeToString
	return sheet{template.CSS(css), template.URL("data:image/svg+xml;base64," + text(icon)), "sha256-" + text(sum[:])}
})

// wantsJSON reports whether the Accept of a client has JSON but not HTML.
func wantsJSON(r *http.Request) bool {
	accept := strings.ToLower(strings.Join(r.Header.Values("Accept"), ","))
	return strings.Contains(accept, "json") && !strings.Contains(accept, "html")
}

// page serves the page, or JSON.
func (h *Handler) page(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, err.Error())
		return
	}
	v := h.look(r.Context(), q)
	w.Header().Set("Vary", "Accept")
	if wantsJSON(r) || r.URL.Path == "/state" {
		writeJSON(w, v)
		return
	}
	if q.Refresh > 0 {
		w.Header().Set("Refresh", strconv.Itoa(q.Refresh)+"; url="+q.Of(q.Kind, q.Page).String())
	}
	h.render(w, http.StatusOK, "main", v)
}

// writeJSON sends v. An error of the connection ends the response; there is nobody to report it to.
func writeJSON(w http.ResponseWriter, v any) {
	body, _ := json.Marshal(v) // all values of cells can be encoded
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	_, _ = w.Write(append(body, '\n'))
}

// label returns the label of a kind, a column or a verb.
func label(key string) string {
	s := strings.ReplaceAll(strings.TrimSuffix(visible(key), "_s"), "_", " ")
	return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):]
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
