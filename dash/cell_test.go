package dash_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/dash"
	"github.com/gresil/gresil/internal/registry"
)

func TestCells(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := faked(t, "a")
		h := handler(t, all, dash.Config{})
		now := time.Now()
		for _, c := range []struct {
			value any
			json  any
			html  string
		}{
			{"open & so on", "open & so on", "<td>open &amp; so on</td>"},
			{"", "", "<td>–</td>"},
			{nil, nil, "<td>–</td>"},
			{true, true, "<td>true</td>"},
			{-7, -7.0, `<td class="number">-7</td>`},
			{uint64(1) << 40, float64(1 << 40), `<td class="number">1099511627776</td>`},
			{1.5, 1.5, `<td class="number">1.5</td>`},
			{2.0 / 3, 2.0 / 3, `<td class="number">0.667</td>`},
			{math.NaN(), nil, "<td>–</td>"},
			{math.Inf(1), nil, "<td>–</td>"},
			{time.Time{}, nil, "<td>–</td>"},
			{now.Add(90 * time.Second), now.Add(90 * time.Second).UTC().Format(time.RFC3339Nano), ">in 1m30s</td>"},
			{now.Add(-1640 * time.Millisecond), now.Add(-1640 * time.Millisecond).UTC().Format(time.RFC3339Nano), ">2s ago</td>"},
			{now.Add(-50 * time.Hour), now.Add(-50 * time.Hour).UTC().Format(time.RFC3339Nano), ">50h ago</td>"},
			{[]string{"<1>", "2"}, []any{"<1>", "2"}, "<details><summary>2</summary><ul><li>&lt;1&gt;</li><li>2</li></ul></details></td>"},
			{time.UTC, "UTC", "<td>UTC</td>"},
			{struct{}{}, nil, "<td>–</td>"},
		} {
			f.rows[0].Cells = []registry.Cell{{Name: "last_value", Value: c.value}}
			require.Equal(t, c.json, rowA(t, state(t, h, "")).Cells["last_value"], c.html)
			page := get(h, "/").Body.String()
			require.Contains(t, page, c.html)
			require.Contains(t, page, ">Last value</a></th>")
		}
		f.rows[0].Cells = []registry.Cell{{Name: "oldest", Value: 1500 * time.Millisecond}}
		require.InDelta(t, 1.5, rowA(t, state(t, h, "")).Cells["oldest_s"], 0)
		require.Contains(t, get(h, "/").Body.String(), `<td class="number">1.5s</td>`)
		require.Contains(t, get(h, "/").Body.String(), ">Oldest</a></th>")
	})
}

func TestSecretsInTexts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := faked(t, "a")
		h, open := handler(t, all, dash.Config{}), handler(t, all, dash.Config{Keys: true})
		for given, want := range map[string]string{
			`Get "https://u:p@host:8080/x?token=1#a": lost`:        `Get "https://host:8080/x?…": lost`,
			`redis://:se@cret@host:6379/0 refused`:                 `redis://host:6379/0 refused`,
			`postgres://u:se'cret@host/db`:                         `postgres://host/db`,
			`parse "redis://u:se/cret@host": invalid port`:         `parse "redis://…": invalid port`,
			`redis://u:se?cret@host/0`:                             `redis://…`,
			`http://u:p@host/x?mail=a@b&token=secret`:              `http://host/x?…`,
			`Get "https://host/x?token=it's/secret": EOF`:          `Get "https://host/x?…": EOF`,
			`https://host:80/users/a@b.example and http://u@[::1]`: `https://host:80/users/a@b.example and http://[::1]`,
			`https://host:80/x?mail=a@secret then http://h`:        `https://host:80/x?… then http://h`,
			`no URL: // a@b ?c`:                                    `no URL: // a@b ?c`,
		} {
			f.rows[0].Cells = []registry.Cell{{Name: "last_error", Value: given, Secret: true}, {Name: "all", Value: []string{given}, Secret: true}}
			cells := rowA(t, state(t, h, "")).Cells
			require.Equal(t, want, cells["last_error"])
			require.Equal(t, []any{want}, cells["all"])
			require.NotContains(t, get(h, "/").Body.String(), "cret")
			require.Equal(t, given, rowA(t, state(t, open, "")).Cells["last_error"])
		}
		long := strings.Repeat("x", 2<<10-len(" redis://user:sec")) + " redis://user:secret@host"
		f.rows[0].Cells = []registry.Cell{{Name: "last_error", Value: long, Secret: true}}
		require.NotContains(t, get(h, "/state").Body.String(), "sec")
		f.rows[0].Cells = []registry.Cell{{Name: "last_error", Value: strings.Repeat("é", 1<<20), Secret: true}}
		require.Less(t, get(h, "/").Body.Len(), 32<<10)
		require.Less(t, get(h, "/state").Body.Len(), 32<<10)
	})
}
