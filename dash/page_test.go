package dash_test

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/dash"
	"github.com/gresil/gresil/internal/registry"
)

// hostile are texts that a page must show and not obey.
func hostile() []string {
	return []string{
		"", "<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, `'" onmouseover='x`, "a:b:c", "a/b?c=d&e#f", "javascript:alert(1)",
		"日本語", "a\u202egnp.exe", "line\r\nbreak\x00\x1b[31m", "bad\xff\xfeutf", strings.Repeat("<é>", 256), "{{.Root}}", "</title></table>",
		"&lt;b&gt;", "\u200b\ufeff", strings.Repeat("x", 1024), "-->", " ", "+%41", `\u202e`,
	}
}

func TestTextsAreEscaped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := &core.Registry{}
		for _, text := range hostile() {
			f := &fake{rows: []registry.Row{{Key: text, Verbs: []string{"pause"}, Cells: []registry.Cell{
				{Name: "text", Value: text}, {Name: "error", Value: text, Secret: true}, {Name: "list", Value: []string{text}},
			}}}, err: errors.New(text)}
			if name := strings.ToValidUTF8(text, "?"); name != "" {
				put(t, all, name, name, f.source())
			}
		}
		_, one := faked(t, "a")
		h := handler(t, one, dash.Config{Controls: allow})
		for _, query := range append(hostile(), "v") {
			for _, page := range []string{"/?q=", "/?kind=batch&sort=", "/?kind=", "/?done=", "/none?"} {
				requireHarmless(t, get(h, page+url.QueryEscape(query)).Body.String())
			}
		}
		for _, text := range hostile() {
			refusing := handler(t, all, dash.Config{Controls: func(*http.Request, dash.Action) error { return errors.New(text) }})
			requireHarmless(t, post(refusing, formType, form("pause", text)).Body.String())
		}
		body := get(handler(t, all, dash.Config{Controls: allow}), "/").Body.String()
		requireHarmless(t, body)
		require.Contains(t, body, "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td>")
		require.Contains(t, body, `<td>a\u202egnp.exe</td>`)
		require.Contains(t, body, `<td>line\r\nbreak\x00\x1b[31m</td>`)
		require.Contains(t, body, "<td>日本語</td>")
		require.Contains(t, body, `<td>&#39;&#34; onmouseover=&#39;x</td>`)
		require.Contains(t, body, strings.Repeat("x", 200)+"…</td>")
		require.NotContains(t, body, strings.Repeat("x", 1024)+"</td>")
		require.Equal(t, len(hostile())-1, strings.Count(body, "</table>"))
	})
}

var (
	tag     = regexp.MustCompile(`<(/?[^\s>]*)`)
	quoted  = regexp.MustCompile(`"[^"]*"`)
	hook    = regexp.MustCompile(`<[^>]*\son[a-z]+\s*=`)
	address = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	raw     = regexp.MustCompile(`(id|name="q" value|name="kind" value)="[^"]*"`) // the search and the kind stay as they were
)

// requireHarmless checks that a page has only the elements and attributes of its templates.
func requireHarmless(t *testing.T, body string) {
	t.Helper()
	known := strings.Fields("!DOCTYPE html head meta title style link body header h1 h2 p main nav ul li a form input label button time " +
		"section strong div table caption thead tbody tr th td details summary")
	_, styled, _ := strings.Cut(body, "</style>")
	for _, m := range tag.FindAllStringSubmatch(styled, -1) {
		if !slices.Contains(known, strings.TrimPrefix(m[1], "/")) {
			t.Fatal(m[1], body)
		}
	}
	require.Empty(t, hook.FindString(quoted.ReplaceAllString(styled, `""`)))
	require.NotContains(t, styled, " style=")
	for _, m := range address.FindAllStringSubmatch(styled, -1) {
		require.True(t, strings.HasPrefix(m[1], "./") || strings.HasPrefix(m[1], "data:image/svg&#43;xml;base64,"), m[1])
	}
	require.Negative(t, strings.IndexFunc(raw.ReplaceAllString(styled, ""), func(r rune) bool {
		return r < ' ' && r != '\n' || r == '\u202e' || r == '\u200b' || r == '\ufeff'
	}), body)
}

// An element is one of a page.
type element struct {
	name       string
	attributes map[string]string
	inside     []*element
}

// parse reads a page. Elements that are not closed, or closed twice, are an error.
func parse(t *testing.T, page string) *element {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, []string{"meta", "link", "input"}, xml.HTMLEntity
	open := []*element{{}}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			require.Len(t, open, 1, page)
			return open[0]
		}
		require.NoError(t, err, page)
		top := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attributes: map[string]string{}}
			for _, a := range token.Attr {
				e.attributes[a.Name.Local] = a.Value
			}
			top.inside = append(top.inside, e)
			open = append(open, e)
		case xml.EndElement:
			require.Equal(t, top.name, token.Name.Local)
			open = open[:len(open)-1]
		}
	}
}

// all returns the elements of a name, in order.
func (e *element) all(name string) (found []*element) {
	for _, in := range e.inside {
		if in.name == name {
			found = append(found, in)
		}
		found = append(found, in.all(name)...)
	}
	return found
}

func TestStructure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := faked(t, hostile()...)
		f.err = errors.New("lost")
		put(t, all, "strange", "b", registry.Source{})
		h := handler(t, all, dash.Config{Controls: allow})
		page := parse(t, get(h, "/").Body.String())
		ids := map[string]bool{}
		for _, s := range page.all("section") {
			ids[s.attributes["id"]] = true
			require.Len(t, s.all("table"), 1)
			require.Len(t, s.all("caption"), 1)
			heads := s.all("thead")[0].all("th")
			for _, h := range heads {
				require.Equal(t, "col", h.attributes["scope"])
			}
			for _, row := range s.all("tbody")[0].all("tr") {
				require.Len(t, row.inside, len(heads), s.attributes["id"])
				require.Equal(t, "th", row.inside[0].name)
				require.Equal(t, "row", row.inside[0].attributes["scope"])
			}
		}
		require.Equal(t, map[string]bool{"batch": true, "strange": true}, ids)
		names := map[string]bool{}
		for _, form := range page.all("form") {
			for _, b := range form.all("button") {
				if form.attributes["method"] == "post" {
					names[b.attributes["aria-label"]] = true
				}
			}
		}
		require.Greater(t, len(names), 3*(len(hostile())-3), "the buttons of each row have names of their own")
		for _, input := range page.all("input") {
			labeled := input.attributes["type"] == "hidden"
			for _, label := range page.all("label") {
				labeled = labeled || slices.Contains(label.all("input"), input)
			}
			require.True(t, labeled, input.attributes["name"])
		}
		for _, path := range []string{"/?kind=batch&refresh=3&n=2&page=2&sort=-pending", "/?kind=pace", "/?n=0", "/none.js", "/?done=yes"} {
			page := parse(t, get(h, path).Body.String())
			for _, name := range []string{"h1", "title", "main"} {
				require.Len(t, page.all(name), 1, path)
			}
		}
		parse(t, post(h, formType, "verb=delete&kind=batch&name=crm&row=-->").Body.String())
		require.Equal(t, "3; url=./?kind=batch&refresh=3", get(h, "/?kind=batch&refresh=3&done=yes").Header().Get("Refresh"))
		require.Empty(t, get(h, "/").Header().Get("Refresh"))
	})
}
