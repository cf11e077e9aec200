package dash_test

import (
	"cmp"
	"fmt"
	"html"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/dash"
	"github.com/gresil/gresil/internal/registry"
)

// many returns a registry with the gate "ads", which has n rows. Those whose number ends with 42 are held.
func many(t *testing.T, n int) (*fake, *core.Registry) {
	t.Helper()
	f, all := &fake{}, &core.Registry{}
	for i := range n {
		r := registry.Row{Key: fmt.Sprintf("v%04d", i), Cells: []registry.Cell{
			{Name: "state", Value: "open"}, {Name: "active", Value: i % 7}, {Name: "attempts", Value: uint64(i * 37 % n)}, {Name: "until", Value: time.Time{}},
		}}
		if i%100 == 42 {
			r.Alarm, r.Cells[0].Value, r.Cells[3].Value = registry.Failing, "Cooling", time.Now().Add(time.Duration(i)*time.Second)
		}
		f.rows = append(f.rows, r)
	}
	put(t, all, "gate", "ads", f.source())
	return f, all
}

// keys returns the keys of the rows of the first table that are about parts.
func keys(s reply) (all []string) {
	for _, row := range s.Tables[0].Rows {
		if *row.Row != "" {
			all = append(all, *row.Row)
		}
	}
	return all
}

func TestPageOfRowsIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, all := many(t, 612)
		h := handler(t, all, dash.Config{})
		table := state(t, h, "").Tables[0]
		require.Len(t, table.Rows, 100)
		require.Equal(t, []int{613, 613, 6}, []int{table.Total, table.Matching, table.Attention})
		for _, key := range keys(state(t, h, ""))[:6] {
			require.Equal(t, "42", key[3:], "rows that need attention are first")
		}
		require.InDelta(t, 6, table.Rows[6].Cells["active"], 0, "then those with the largest first number")
		page := get(h, "/").Body.String()
		require.Equal(t, 100, strings.Count(page, `<th scope="row">`))
		require.Contains(t, page, "1 to 100 of 613; 6 need attention")
		require.Contains(t, page, `href="./?kind=gate&amp;page=2"`)
		require.Empty(t, state(t, h, "?kind=gate&page=1000000&n=500").Tables[0].Rows)
		require.Contains(t, get(h, "/?kind=gate&page=1000000").Body.String(), "None")
	})
}

// The links of the page reach every row once, whatever the order, the search, and the order in which a store has the rows.
func TestPagesReachEveryRowOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := many(t, 121)
		h := handler(t, all, dash.Config{})
		next := regexp.MustCompile(`<a rel="next" href="([^"]*)"`)
		row := regexp.MustCompile(`<td>(v\d+)`)
		for query, want := range map[string]int{
			"?kind=gate&n=20": 121, "?kind=gate&n=20&sort=attempts": 121, "?kind=gate&n=20&sort=-active": 121,
			"?kind=gate&n=7&q=V00": 100, "?n=10": 121, "?kind=gate&n=10&sort=until": 121, "?kind=gate&n=10&sort=state": 121,
		} {
			var seen []string
			for address := "/" + query; address != ""; {
				rand.Shuffle(len(f.rows), func(i, j int) { f.rows[i], f.rows[j] = f.rows[j], f.rows[i] })
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
	})
}

func TestSort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, all := many(t, 300)
		h := handler(t, all, dash.Config{})
		sorted := func(by string) reply { return state(t, h, "?kind=gate&n=500&sort="+by) }
		numbers := func(s reply) (n []float64) {
			for _, row := range s.Tables[0].Rows {
				if f, ok := row.Cells["attempts"].(float64); ok {
					n = append(n, f)
				}
			}
			return n
		}
		up, down := numbers(sorted("attempts")), numbers(sorted("-attempts"))
		require.True(t, slices.IsSorted(up))
		slices.Reverse(down)
		require.Equal(t, up, down)
		require.Len(t, up, 300)
		require.True(t, slices.IsSorted(keys(sorted("name"))))
		require.Equal(t, "v0299", keys(sorted("-name"))[0])
		require.Equal(t, "v0242", keys(sorted("state"))[0])
		require.Equal(t, []string{"v0042", "v0142", "v0242"}, keys(sorted("until"))[:3], "unknown values are last")
		require.Equal(t, []string{"v0242", "v0142", "v0042"}, keys(sorted("-until"))[:3])
		require.Equal(t, keys(sorted("")), keys(sorted("none")))
		page := get(h, "/?kind=gate&sort=attempts&page=2").Body.String()
		require.Contains(t, page, `<th scope="col" aria-sort="ascending"><a href="./?kind=gate&amp;sort=-attempts">Attempts</a></th>`)
		page = get(h, "/?kind=gate&sort=-attempts").Body.String()
		require.Contains(t, page, `<th scope="col" aria-sort="descending"><a href="./?kind=gate&amp;sort=attempts">Attempts</a></th>`)
		require.NotContains(t, page, "<th>")
	})
}

func TestSearch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, all := many(t, 60)
		h := handler(t, all, dash.Config{})
		require.Equal(t, []string{"v0033"}, keys(state(t, h, "?q=V0033")))
		require.Equal(t, []string{"v0042"}, keys(state(t, h, "?q=cooling")))
		require.Len(t, keys(state(t, h, "?q=ADS&n=500")), 60)
		table := state(t, h, "?q=none").Tables[0]
		require.Empty(t, table.Rows)
		require.Equal(t, []int{61, 0}, []int{table.Total, table.Matching})
		require.Contains(t, get(h, "/?q=none").Body.String(), "None, out of 61")
	})
}

// Tables of all kinds are on the page, and every instance, also one without rows.
func TestTablesByAttention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := &core.Registry{}
		rows := func(alarm registry.Alarm) registry.Source {
			return (&fake{rows: []registry.Row{{Key: "a", Alarm: alarm}}}).source()
		}
		put(t, all, "a", "calm", rows(registry.Calm))
		put(t, all, "b", "without rows", registry.Source{})
		put(t, all, "c", "paused", rows(registry.Notice))
		put(t, all, "d", "failing", rows(registry.Failing))
		put(t, all, "e", "failing", registry.Source{Rows: (&fake{err: core.ErrRejected}).source().Rows})
		h := handler(t, all, dash.Config{})
		var kinds []string
		for _, table := range state(t, h, "").Tables {
			kinds = append(kinds, table.Kind)
		}
		require.Equal(t, []string{"d", "e", "c", "a", "b"}, kinds)
		require.Equal(t, "failing", state(t, h, "?kind=e").Tables[0].Rows[0].Alarm)
		require.Equal(t, "without rows", state(t, h, "?kind=b").Tables[0].Rows[0].Name)
		require.Empty(t, state(t, h, "?kind=none").Tables)
		require.Contains(t, get(h, "/?kind=none").Body.String(), "There is no instance.")
		require.NotContains(t, get(h, "/?kind=b").Body.String(), ">Row</th>", "there are no parts")
		require.Contains(t, get(h, "/?kind=d").Body.String(), `<tr class="failing"><th scope="row">failing</th><td>a</td>`)
	})
}

func TestSecretRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := &fake{rows: []registry.Row{{Key: "token-1", Secret: true, Alarm: registry.Notice, Verbs: []string{"resume"}}}}, &core.Registry{}
		put(t, all, "gate", "ads", f.source())
		body := `{"verb":"resume","kind":"gate","name":"ads","row":"token-1"}`
		for _, keys := range []bool{false, true} {
			h := handler(t, all, dash.Config{Keys: keys, Controls: allow})
			row := state(t, h, "").Tables[0].Rows[0]
			require.Equal(t, keys, row.Row != nil)
			require.Equal(t, keys, len(row.Verbs) > 0)
			page := get(h, "/?q=token").Body.String() + get(h, "/").Body.String() + get(h, "/state").Body.String()
			require.Equal(t, keys, strings.Contains(page, "token-1"))
			require.Equal(t, !keys, strings.Contains(page, "(hidden)"))
			require.Equal(t, cmp.Compare(1, len(state(t, h, "?q=token").Tables[0].Rows)) > 0, !keys, "nor is it found")
			require.Equal(t, keys, post(h, jsonType, body).Code == 200)
		}
		require.Equal(t, []string{"resume token-1"}, f.asked)
	})
}
