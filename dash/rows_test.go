package dash_test

import (
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/dash"
	"github.com/gresil/gresil/outbound/dispatch"
)

func many(t *testing.T, n int) *core.Registry {
	t.Helper()
	registry := &core.Registry{}
	for i := range n {
		add(t, registry, fmt.Sprintf("v%04d", i), func() dispatch.Snapshot {
			s := dispatch.Snapshot{Stats: dispatch.Stats{Active: i % 7, Attempts: uint64(i * 37 % n)}}
			if i%100 == 42 {
				s.Held = []dispatch.Hold{{Scope: dispatch.ScopeVendor, Until: time.Now().Add(time.Duration(i) * time.Second)}}
			}
			return s
		})
	}
	return registry
}

func names(s reply) (all []string) {
	for _, row := range s.Rows {
		name, _ := row["name"].(string)
		all = append(all, name)
	}
	return all
}

func TestAPageOfRowsIsBounded(t *testing.T) {
	t.Parallel()
	h := handler(t, many(t, 612), dash.Config{})
	s := state(t, h, "")
	require.Len(t, s.Rows, 100)
	require.Equal(t, 512, s.Page.Left_out)
	require.Equal(t, 612, s.Totals["dispatch"].Rows)
	require.Equal(t, 6, s.Totals["dispatch"].Attention)
	for _, name := range names(s)[:6] {
		require.Equal(t, "42", name[3:], "rows that need attention are first")
	}
	page := get(h, "/").Body.String()
	require.Equal(t, 100, strings.Count(page, `<th scope="row">`))
	require.Contains(t, page, "Vendors: 1 to 100 of 612; 6 need attention")
	require.Contains(t, page, `href="./?kind=dispatch&amp;page=2"`)
	require.Empty(t, state(t, h, "?kind=dispatch&page=1000000&n=500").Rows)
}

// Groups come from a store in any order.
func TestThePagesReachEveryGroupOnceInWhateverOrderTheyAreRead(t *testing.T) {
	t.Parallel()
	var options []string
	for i := range 100 {
		options = append(options, fmt.Sprint(i))
	}
	f, registry := faked(t, options...)
	h := handler(t, registry, dash.Config{})
	for _, query := range []string{"", "&sort=pending", "&sort=pending&dir=desc", "&sort=last_error"} {
		seen := map[any]bool{}
		for page := range 10 {
			rand.Shuffle(len(f.groups), func(i, j int) { f.groups[i], f.groups[j] = f.groups[j], f.groups[i] })
			for _, row := range state(t, h, fmt.Sprintf("?kind=batch&n=10&page=%d%s", page+1, query)).Rows {
				require.False(t, seen[row["option"]])
				seen[row["option"]] = true
			}
		}
		require.Len(t, seen, 100)
	}
}

// The links of the page reach every row once, whatever the order and the search.
func TestThePagesReachEveryRowOnce(t *testing.T) {
	t.Parallel()
	h := handler(t, many(t, 121), dash.Config{})
	next := regexp.MustCompile(`<a rel="next" href="([^"]*)"`)
	row := regexp.MustCompile(`<th scope="row">(v\d+)`)
	for query, want := range map[string]int{
		"?kind=dispatch&n=20": 121, "?kind=dispatch&n=20&sort=attempts": 121, "?kind=dispatch&n=20&sort=active&dir=desc": 121,
		"?kind=dispatch&n=7&q=V00": 100, "?n=10": 121, "?kind=dispatch&n=10&sort=until": 121,
	} {
		var seen []string
		for address := "/" + query; address != ""; {
			page := get(h, address).Body.String()
			for _, m := range row.FindAllStringSubmatch(page, -1) {
				seen = append(seen, m[1])
			}
			address = ""
			if m := next.FindStringSubmatch(page); m != nil {
				address = strings.TrimPrefix(html.UnescapeString(m[1]), ".")
			}
		}
		require.Len(t, seen, want, query)
		slices.Sort(seen)
		require.Len(t, slices.Compact(seen), want, query)
	}
}

func TestRowsAreSortedByAnyColumn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, many(t, 300), dash.Config{})
		all := func(query string) reply { return state(t, h, "?kind=dispatch&n=500&"+query) }
		numbers := func(s reply) (n []float64) {
			for _, row := range s.Rows {
				f, _ := row["attempts"].(float64)
				n = append(n, f)
			}
			return n
		}
		up := numbers(all("sort=attempts"))
		require.True(t, slices.IsSorted(up))
		down := numbers(all("sort=attempts&dir=desc"))
		slices.Reverse(down)
		require.Equal(t, up, down)
		require.True(t, slices.IsSorted(names(all("sort=name"))))
		require.Equal(t, "v0299", names(all("sort=name&dir=desc"))[0])
		require.Equal(t, []string{"v0042", "v0142", "v0242", "v0000"}, names(all("sort=until"))[:4], "unknown values are last")
		require.Equal(t, []string{"v0242", "v0142", "v0042", "v0000"}, names(all("sort=until&dir=desc"))[:4])
		page := get(h, "/?kind=dispatch&sort=attempts").Body.String()
		require.Contains(t, page, `<th scope="col" aria-sort="ascending"><a href="./?dir=desc&amp;kind=dispatch&amp;sort=attempts">Attempts</a></th>`)
		few := handler(t, many(t, 10), dash.Config{})
		for _, m := range regexp.MustCompile(`<th scope="col"[^>]*><a href="\.([^"]*)"`).FindAllStringSubmatch(get(few, "/?kind=dispatch&q=v0001").Body.String(), -1) {
			require.Equal(t, 200, get(few, html.UnescapeString(m[1])).Code)
		}
	})
}

// hostile are texts that a page must show and not obey.
func hostile() []string {
	return []string{
		"", "<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, `'" onmouseover='x`, "a:b:c", "a/b?c=d&e#f", "javascript:alert(1)", "日本語", "a\u202egnp.exe",
		"line\r\nbreak\x00\x1b[31m", "bad\xff\xfeutf", strings.Repeat("<é>", 256), "{{.Root}}", "</title></table>", "&lt;b&gt;", "\u200b\ufeff", strings.Repeat("x", 1024), "-->", " ", "+%41",
	}
}

func TestTextsAreEscaped(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	for _, name := range hostile() {
		if name = strings.ToValidUTF8(name, "?"); name != "" {
			add(t, registry, name, func() (s dispatch.Snapshot) { return s })
		}
	}
	h := handler(t, registry, dash.Config{Title: "<script>title</script>", Controls: true})
	clean := strings.Count(get(handler(t, &core.Registry{}, dash.Config{}), "/").Body.String(), "<")
	for _, query := range append(hostile(), "v") {
		for _, page := range []string{"/?q=", "/?kind=dispatch&sort=", "/?kind="} {
			body := get(h, page+url.QueryEscape(query)).Body.String()
			requireHarmless(t, body)
			require.Greater(t, len(body), clean)
		}
	}
	body := get(h, "/").Body.String()
	require.Contains(t, body, "&lt;script&gt;alert(1)&lt;/script&gt;")
	require.Contains(t, body, `a\u202egnp.exe`)
	require.Contains(t, body, `line\r\nbreak\x00\x1b[31m`)
	require.Contains(t, body, "日本語")
	require.Equal(t, 1, strings.Count(body, "</table>"))
	require.Contains(t, body, strings.Repeat("x", 200)+"…")
}

// requireHarmless checks that a page has only the elements and attributes of its templates.
func requireHarmless(t *testing.T, body string) {
	t.Helper()
	known := strings.Fields("!DOCTYPE html head meta title link body header h1 h2 p main nav ul li a form input label button time " +
		"section strong div table caption thead tbody tr th td details summary span")
	for _, m := range regexp.MustCompile(`<(/?[^\s>]*)`).FindAllStringSubmatch(body, -1) {
		if !slices.Contains(known, strings.TrimPrefix(m[1], "/")) {
			t.Fatal(m[1], body)
		}
	}
	require.NotRegexp(t, `<[^>]*\son[a-z]+\s*=`, regexp.MustCompile(`"[^"]*"`).ReplaceAllString(body, `""`))
	require.NotRegexp(t, `(href|src|action)="javascript`, body)
	shown := regexp.MustCompile(`name="q" value="[^"]*"`).ReplaceAllString(body, "") // the search stays as it was
	require.Negative(t, strings.IndexFunc(shown, func(r rune) bool {
		return r < ' ' && r != '\n' || r == '\u202e' || r == '\u200b' || r == '\ufeff'
	}), body)
}

func TestTheSearchFindsNamesAndTexts(t *testing.T) {
	t.Parallel()
	registry := many(t, 60)
	h := handler(t, registry, dash.Config{})
	require.Equal(t, []string{"v0033"}, names(state(t, h, "?q=V0033")))
	require.Equal(t, []string{"v0042"}, names(state(t, h, "?q=cooling")))
	s := state(t, h, "?q=none")
	require.Empty(t, s.Rows)
	require.Equal(t, 60, s.Totals["dispatch"].Rows)
	require.Contains(t, get(h, "/?q=none").Body.String(), "Vendors: none, out of 60")
}

// Views, changes of the registry and readings that fail, at once.
func TestManyReadersAtOnce(t *testing.T) {
	t.Parallel()
	registry := many(t, 10)
	add(t, registry, "panics", func() dispatch.Snapshot { panic("x") })
	h := handler(t, registry, dash.Config{Timeout: 30 * time.Second})
	done := make(chan int)
	for range 8 {
		go func() {
			rows := 0
			for range 5 {
				rows += strings.Count(get(h, "/?n="+fmt.Sprint(1+rand.IntN(500))).Body.String(), `<th scope="row">`)
			}
			done <- rows
		}()
	}
	for i := range 20 {
		name := fmt.Sprintf("n%d", i)
		add(t, registry, name, func() (s dispatch.Snapshot) { return s })
	}
	for range 8 {
		require.Positive(t, <-done)
	}
}
