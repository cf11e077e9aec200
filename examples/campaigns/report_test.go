package main

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demotest"
)

const pattern = "POST /call"

// foreign returns a vendor that serves all calls.
func foreign() *demotest.Foreign {
	return &demotest.Foreign{Call: func(w http.ResponseWriter, _ *http.Request, _ int, _ []byte) { w.WriteHeader(http.StatusNoContent) }}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		figures, args string
		code          int
		problem       string
	}{
		"within the limit":   {`"most_fixed":100,"most_sliding":100,"stall_ms":900`, "", 0, ""},
		"a sliding second":   {`"most_fixed":99,"most_sliding":142`, "", 1, "142 calls in a second, the limit is 100"},
		"no stall of vendor": {`"most_fixed":99,"most_sliding":101,"stall_ms":0`, "", 1, "101 calls in a second, the limit is 100"},
		"a stall":            {`"most_fixed":99,"most_sliding":101,"stall_ms":10000.1`, "", 3, "101 calls in a second, the limit is 100"},
		"a control":          {`"most_fixed":9,"most_sliding":101,"stall_ms":1e4`, "-algorithm naive", 0, "101 calls in a second, the limit is 100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := foreign()
			f.Figures = `{"arrivals":7,"unique":5,"duplicates":2,"seconds":1.25,` + c.figures + `,"other":1}`
			url := f.Start(t, pattern)
			var r demotest.Output
			for range 5 { // a stall of this machine would be one too
				r = demotest.Run(t.Context(), t, "-campaigns 2 -calls 1 -workers 1 -cps 100 -vendor %s %s", url, c.args)
				if c.code == 3 || r.Num("stall_ms") <= r.Num("skew_ms") {
					break
				}
			}
			require.Equal(t, c.code, r.Code, r)
			require.Equal(t, c.code == 3, r.Is("void"))
			require.Equal(t, c.problem == "", r.Is("ok"))
			require.Equal(t, c.problem, r.Text("problem"))
			require.Equal(t, []int{7, 5, 2}, r.Nums("arrivals", "unique", "duplicates"))
		})
	}
}

func TestSummaryHasAllNames(t *testing.T) {
	t.Parallel()
	r := demotest.Run(t.Context(), t, "-campaigns 2 -calls 5 -workers 2 -cps 100")
	require.Zero(t, r.Code, r)
	for name, want := range map[string]string{
		"algorithm": `"gresil"`, "engine": `"memory"`, "runs_per_call": "1", "retried": "0", "campaigns": "2", "calls": "5", "workers": "2",
		"cps": "100", "kill": "0", "served": "10", "failed": "0", "deaths": "0", "in_flight": "[]", "lost": "0", "ideal_seconds": "0.1",
		"slack_ms": "50", "skew_ms": "25", "judged": "true", "arrivals": "10", "unique": "10", "duplicates": "0", "void": "false", "ok": "true",
	} {
		require.Equal(t, want, string(r.Figures[name]), name)
	}
	for _, name := range []string{
		"run", "elapsed_seconds", "worst_half", "best_half", "checks_per_call", "stale", "redis_cpu_percent",
		"most_sliding", "most_fixed", "seconds", "stall_ms",
	} {
		require.Contains(t, r.Figures, name)
	}
	require.Len(t, r.Figures, 34)
	require.Regexp(t, `^vendor: http://127.0.0.1:\d+\nworker 1: pid \d+\nworker 2: pid \d+\n`, r.Stderr)
}

// The text has the demand, progress without a terminal, both columns with a sentence for each figure, and a verdict for
// each.
func TestTextHasControlBeside(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), strings.Fields("-campaigns 2 -calls 60 -workers 1 -cps 50"), &stdout, &stderr)
	require.Contains(t, []int{0, 3}, code, &stdout)
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	require.Equal(t, "The vendor permits 50 calls in any second. 2 campaigns make 60 calls each, from 1 processes.", lines[0])
	require.Regexp(t, `^ +gresil +naive \(control\)`, lines[2])
	for _, line := range lines[3 : len(lines)-2] {
		require.Regexp(t, `^\w+ +[\d.]+ +[\d.]+ +[A-Z].*\.$`, line)
	}
	require.Regexp(t, "^ok: all calls were served, and no second was above the limit$|^VOID: ", lines[len(lines)-2])
	require.Contains(t, lines[len(lines)-1], "the control broke the limit, as expected: ")
	require.Regexp(t, `(?m)^\d+s: \d+ of 120 served, 0 failed, \d+s left$`, stderr.String())
}
