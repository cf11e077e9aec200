package dash

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"net/http"
	"strconv"
	"sync"
)

//go:embed page.html app.css icon.svg
var files embed.FS

// templates are parsed at the first use, so that a program that does not serve the page does not
// pay for it.
var templates = sync.OnceValue(func() *template.Template { //nolint:gochecknoglobals // a constant
	return template.Must(template.ParseFS(files, "page.html"))
})

// An asset is a file that browsers keep.
type asset struct {
	content         []byte
	mediaType, hash string
}

var loaded = sync.OnceValue(func() map[string]asset { //nolint:gochecknoglobals // a constant
	all := map[string]asset{}
	for name, mediaType := range map[string]string{"app.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"} {
		content, _ := files.ReadFile(name) // it is embedded
		sum := sha256.Sum256(content)
		all[name] = asset{content, mediaType, hex.EncodeToString(sum[:6])}
	}
	return all
})

// asset serves a file, for ever if its address has its hash.
func (*Handler) asset(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, header := loaded()[name], w.Header()
		header.Set("Content-Type", a.mediaType)
		header.Set("ETag", strconv.Quote(a.hash))
		header.Set("Cache-Control", "no-cache")
		if r.URL.Query().Get("v") == a.hash {
			header.Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		if r.Header.Get("If-None-Match") == strconv.Quote(a.hash) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(a.content)
	}
}
