package dash_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/dash"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/dispatch"
)

// An element is one of a page.
type element struct {
	name       string
	attributes map[string]string
	text       string
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
		case xml.CharData:
			top.text += string(token)
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

func TestThePageHasTheStructureThatItsReadersNeed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, registry := faked(t, hostile()...)
		f.groups = append(f.groups, batch.GroupInfo{Option: "paused", Paused: true})
		ads(t, registry)
		add(t, registry, "panics", func() dispatch.Snapshot { panic("x") })
		put(t, registry, "strange", "b", reporter{})
		page := parse(t, get(handler(t, registry, dash.Config{Controls: true, Keys: true}), "/").Body.String())
		var sections []string
		for _, s := range page.all("section") {
			sections = append(sections, s.attributes["id"])
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
		require.Equal(t, []string{"batch", "dispatch", "services"}, sections)
		names := map[string]bool{}
		for _, form := range page.all("form") {
			for _, b := range form.all("button") {
				if form.attributes["method"] == "post" {
					require.NotEmpty(t, b.attributes["aria-label"])
					names[b.attributes["aria-label"]] = true
				}
			}
		}
		require.Greater(t, len(names), 3*len(hostile()), "the buttons of each row have names of their own")
		for _, input := range page.all("input") {
			hidden := input.attributes["type"] == "hidden"
			labeled := false
			for _, label := range page.all("label") {
				for _, in := range label.all("input") {
					labeled = labeled || in == input
				}
			}
			require.True(t, hidden || labeled, input.attributes["name"])
		}
		ids := map[string]bool{}
		for _, s := range page.all("section") {
			require.False(t, ids[s.attributes["id"]])
			ids[s.attributes["id"]] = true
		}
	})
}

func TestEveryPageIsWellFormed(t *testing.T) {
	t.Parallel()
	_, registry := faked(t, hostile()...)
	h := handler(t, registry, dash.Config{Controls: true})
	for _, path := range []string{"/", "/?kind=batch&refresh=3&n=2&page=2&sort=option&dir=desc", "/?kind=pace", "/?n=0", "/none.js", "/?done=flush"} {
		w := get(h, path)
		page := parse(t, w.Body.String())
		require.Len(t, page.all("h1"), 1)
		require.Len(t, page.all("title"), 1)
		require.Len(t, page.all("main"), 1)
	}
	require.Equal(t, "3; url=./?kind=batch&refresh=3", get(h, "/?kind=batch&refresh=3").Header().Get("Refresh"))
	require.Empty(t, get(h, "/").Header().Get("Refresh"))
	question := post(h, formType, "verb=delete&kind=batch&name=crm&option=%22%3E")
	require.Equal(t, 404, question.Code)
	parse(t, question.Body.String())
}

func TestThePageIsSmall(t *testing.T) {
	t.Parallel()
	h := handler(t, many(t, 120), dash.Config{})
	size := get(h, "/app.css").Body.Len() + get(h, "/icon.svg").Body.Len()
	require.Less(t, size, 20<<10)
	require.Less(t, get(h, "/api/state").Body.Len(), 64<<10, "100 rows")
}
