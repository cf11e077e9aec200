package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASummaryHasAllNames(t *testing.T) {
	t.Parallel()
	r := runJSON(t.Context(), t, "-options 2 -records 10 -max-records 3 -scale 60")
	require.Zero(t, r.Code, r)
	for name, want := range map[string]any{
		"algorithm": "gresil", "options": 2.0, "records": 10.0, "max_records": 3.0, "calls_per_minute": 100.0, "processes": 2.0,
		"scale": 60.0, "served": 10.0, "failed": 0.0, "lost": 0.0, "calls": 4.0, "ideal_calls": 4.0, "refused": 0.0, "deaths": 0.0,
		"ideal_seconds": 0.04, "slack_ms": 50.0, "skew_ms": 20.0, "judged": true, "arrivals": 4.0, "over": 0.0, "too_big": 0.0, "bad": 0.0,
		"calls_by_option": map[string]any{"list-1:upsert": 2.0, "list-1:insert": 2.0}, "accepted": 10.0, "unique": 10.0,
		"duplicates": 0.0, "most_sliding": 4.0, "void": false, "ok": true,
	} {
		require.Equal(t, want, r.JSON[name], name)
	}
	for _, name := range []string{"run", "elapsed_seconds", "most_fixed", "seconds", "stall_ms"} {
		require.Contains(t, r.JSON, name)
	}
	require.Len(t, r.JSON, 34)
	require.Regexp(t, `^vendor: http://127.0.0.1:\d+\nprocess 1: pid \d+\nprocess 2: pid \d+\n$`, r.Stderr, "no progress without a terminal")
}

func TestASummaryAsText(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), strings.Fields("-options 2 -records 10 -max-records 3 -processes 1 -scale 60"), &stdout, &stderr), &stderr)
	require.Regexp(t, `^algorithm +gresil
records +10 in 2 options, from 1 processes, 3 a call
limit +100 calls in 1s
served +10
failed +0
lost +0
calls +4, ideal 4
refused +0
deaths +0
judged +true
arrivals +4
over +0
too_big +0
bad +0
accepted +10
unique +10
duplicates +0
most_sliding +4
most_fixed +\d
seconds +0.\d+
elapsed_seconds +0.\d+, ideal 0.04
stall_ms +\S+, slack 50, skew 20
ok: all records were served by the smallest number of calls, and no minute was above the limit
$`, stdout.String())
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, figures, args string
		code                int
		problem             string
	}{
		{"ok", `"most_sliding":100`, "", 0, ""},
		{"over", `"most_sliding":101,"over":1`, "", 1, "1 calls were refused; 101 calls in a minute, the limit is 100"},
		{"no stall explains it", `"most_sliding":101,"stall_ms":0`, "", 1, "101 calls in a minute, the limit is 100"},
		{"a stall", `"most_sliding":101,"stall_ms":10000.1`, "", 3, "101 calls in a minute, the limit is 100"},
		{"too big", `"too_big":2,"bad":3,"stall_ms":10000.1`, "", 1, "2 calls were too big; 3 calls were malformed"},
		{"duplicates", `"duplicates":4`, "", 1, "4 records arrived again"},
		{"lost", `"unique":7`, "", 1, "7 of 9 records arrived"},
		{"calls", `"records":9,"calls_by_option":{"list-1:upsert":2,"list-1:insert":1}`, "", 1, "1 options have another number of calls than they need, the first: 2 of list-1:upsert instead of 1"},
		{"calls of other runs", `"records":18,"calls_by_option":{"list-1:upsert":2,"list-1:insert":2}`, "", 0, ""},
		{"calls in another form", `"records":9,"calls_by_option":[1]`, "", 0, ""},
		{"a control", `"most_sliding":101,"over":1,"stall_ms":10000.1`, "-algorithm naive", 0, "1 calls were refused; 101 calls in a minute, the limit is 100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := foreign{judge: func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"arrivals":7,"seconds":1.25,`+c.figures+`,"other":1}`)
			}}
			var r ran
			for range 5 { // a stall of this machine would be one too
				r = runJSON(t.Context(), t, "-options 2 -records 9 -processes 1 -scale 60 -vendor %s %s", f.start(t), c.args)
				if c.code == 3 || r.Stall <= r.Skew {
					break
				}
			}
			require.Equal(t, c.code, r.Code, r)
			require.Equal(t, c.code == 3, r.Void)
			require.Equal(t, c.problem == "", r.OK)
			require.Equal(t, c.problem, r.Problem)
			require.Contains(t, r.Stdout, `"judged":true,`)
			require.Contains(t, r.Stdout, `"arrivals":7,`)
		})
	}
}

// TestAStallDoesNotExplainARunThatIsTooFast: 10 minutes of calls took one.
func TestAStallDoesNotExplainARunThatIsTooFast(t *testing.T) {
	t.Parallel()
	s := newSummary(config{options: 1, records: 100, maxRecords: 1, callsPerMinute: 10, scale: 60, algorithm: "gresil"})
	s.Served, s.figures = 100, &figures{MostSliding: "11", Stall: "60"}
	require.InDelta(t, 10, s.Ideal, 0)
	for elapsed, void := range map[float64]bool{1: false, 8.9: false, 9.1: true, 12: true} {
		s.Elapsed = elapsed
		require.Equal(t, void, s.fail(nil).Void, elapsed)
	}
}
