package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const compared = `[
	{"row": "take: 1 key", "ratio": 0.5},
	{"row": "take: 2 < 3 & 4 keys", "ratio": 2, "disturbed": true},
	{"row": "take: no peer", "ratio": null},
	{"row": "retry, no colon", "ratio": 1},
	{"row": "retry, nothing at all", "ratio": 0},
	{"row": "gate: far", "ratio": 1000}
]`

// overRedis is what cmd/redis prints: the rows of growth, each with 10,000 decisions/s times its place, a lease, and rows without a bar.
func overRedis(t *testing.T) string {
	t.Helper()
	rows := []map[string]any{
		{"row": "token bucket, 1 key, allowed, strict", "ours": 1, "redis_rate": 2},
		{"row": "a vendor's limit, 1 key, strict [decisions/s]", "ours": 1, "redis_rate": nil},
	}
	for i, name := range []string{
		"10,000 keys, 1 caller", "10,000 keys, 4 callers", "10,000 keys, 16 callers", "10,000 keys, allowed",
		"10,000 keys, 256 callers", "1 key, allowed", "100 hot keys, allowed", "1,000,000 cold keys, allowed",
	} {
		for mode, times := range []float64{1, 4} {
			rows = append(rows, map[string]any{
				"row":  "token bucket, " + name + ", " + []string{"strict", "coalesced"}[mode] + " [decisions/s]",
				"ours": 10_000 * float64(i+1) * times, "redis_rate": 10_000 * float64(i+1),
			})
		}
	}
	rows = append(rows, map[string]any{"row": "token bucket, 1,000,000 cold keys, allowed, lease [decisions/s]", "ours": 40_000, "redis_rate": 80_000})
	text, err := json.Marshal(rows)
	require.NoError(t, err)
	return string(text)
}

// drawn writes the inputs, draws, and returns the directory of the charts and what was printed.
func drawn(t *testing.T, compare, redis string) (code int, out, printed string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"compare.json": compare, "redis.json": redis} {
		if text != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
	}
	var errs bytes.Buffer
	out = filepath.Join(dir, "docs", "charts")
	code = run([]string{"-compare", filepath.Join(dir, "compare.json"), "-redis", filepath.Join(dir, "redis.json"), "-out", out}, &errs)
	return code, out, errs.String()
}

// elements parses a chart, and returns the attributes of its elements of a name, whose class begins with a prefix.
func elements(t *testing.T, out, chart, name, prefix string) (all []map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(out, chart))
	require.NoError(t, err)
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, chart)
		element, ok := token.(xml.StartElement)
		if !ok || element.Name.Local != name {
			continue
		}
		attributes := map[string]string{}
		for _, a := range element.Attr {
			attributes[a.Name.Local] = a.Value
		}
		if strings.HasPrefix(attributes["class"], prefix) {
			all = append(all, attributes)
		}
	}
}

func TestBars(t *testing.T) {
	t.Parallel()
	code, out, printed := drawn(t, compared, overRedis(t))
	require.Zero(t, code, printed)
	type of struct{ class, x, width string }
	bars := func(chart string) (all []of) {
		for _, b := range elements(t, out, chart, "rect", "bar ") {
			all = append(all, of{b["class"], b["x"], b["width"]})
		}
		return all
	}
	require.Equal(t, []of{
		{"bar better", "505.0", "45.0"},
		{"bar worse disturbed", "550.0", "45.0"},
		{"bar better", "550.0", "0.0"},
		{"bar better", "370.0", "180.0"}, // 1 has no length, and 0 is cut off
		{"bar worse", "550.0", "180.0"},  // so is 1000
	}, bars("compare.svg"))
	require.Len(t, elements(t, out, "compare.svg", "text", "bold"), 3)
	modes := bars("redis.svg")
	require.Len(t, modes, 8*2+1)
	require.Equal(t, []of{{"bar strict", "460.0", "0.0"}, {"bar coalesced", "460.0", "90.0"}}, modes[:2])
	require.Equal(t, of{"bar lease", "415.0", "45.0"}, modes[16])
	require.Len(t, elements(t, out, "redis.svg", "text", "bold"), 8)
	require.Equal(t, "800", elements(t, out, "redis.svg", "svg", "")[0]["width"])
}

func TestGrowth(t *testing.T) {
	t.Parallel()
	code, out, printed := drawn(t, compared, overRedis(t))
	require.Zero(t, code, printed)
	lines := elements(t, out, "growth.svg", "polyline", "line ")
	require.Len(t, lines, 6)
	// The scale ends at 400,000, which is 240 above 324.
	require.Equal(t, "line strict", lines[0]["class"])
	require.Equal(t, "86.0,318.0 153.5,312.0 221.0,306.0 288.5,300.0 356.0,294.0", lines[0]["points"])
	require.Equal(t, "line coalesced", lines[4]["class"])
	require.Equal(t, "476.0,180.0 566.0,156.0 656.0,228.0 746.0,132.0", lines[4]["points"])
	require.Equal(t, "line redis_rate", lines[2]["class"])
	require.Equal(t, lines[0]["points"], lines[2]["points"])
}

func TestSameInputSameCharts(t *testing.T) {
	t.Parallel()
	_, first, _ := drawn(t, compared, overRedis(t))
	_, second, _ := drawn(t, compared, overRedis(t))
	for _, chart := range []string{"compare.svg", "redis.svg", "growth.svg"} {
		a, err := os.ReadFile(filepath.Join(first, chart))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(second, chart))
		require.NoError(t, err)
		require.Equal(t, string(a), string(b))
	}
}

func TestWrongInput(t *testing.T) {
	t.Parallel()
	all := overRedis(t)
	const wayCompare, wayRedis = "make it with go -C bench run ./cmd/compare -json > bench/compare.json", "make it with go -C bench run ./cmd/redis -json > bench/redis.json"
	for name, tt := range map[string]struct{ compare, redis, want, way string }{
		"no file":         {"", all, "no such file", wayCompare},
		"no JSON":         {"| row | ours |", all, "invalid character", wayCompare},
		"other file":      {all, all, `no row has a "ratio"`, wayCompare},
		"negative ratio":  {`[{"row": "take: a", "ratio": -1}]`, all, `row "take: a": ratio is -1, and must be >= 0`, wayCompare},
		"no redis_rate":   {compared, compared, `no row whose name ends in " [decisions/s]" has both "ours" and "redis_rate"`, wayRedis},
		"no decisions":    {compared, strings.Replace(all, `"ours":10000,`, `"ours":0,`, 1), `ours is 0 and redis_rate is 10000, and both must be > 0`, wayRedis},
		"no growth":       {compared, strings.ReplaceAll(all, "16 callers", "17 callers"), `there is no row "token bucket, 10,000 keys, 16 callers, strict [decisions/s]"`, wayRedis},
		"rows of a table": {compared, `{"row": 1}`, "cannot unmarshal object", wayRedis},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, printed := drawn(t, tt.compare, tt.redis)
			require.Equal(t, 1, code)
			require.Contains(t, printed, tt.want)
			require.Contains(t, printed, tt.way)
			require.Contains(t, printed, ".json: ", "the file")
		})
	}
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	require.Equal(t, 2, run([]string{"-in", "a"}, &errs))
	require.Equal(t, 2, run([]string{"a.json"}, &errs))
	require.Contains(t, errs.String(), `charts: there are flags only, not "a.json"`)
	require.Zero(t, run([]string{"-h"}, &errs))
}
