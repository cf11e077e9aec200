package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/examples/internal/demotest"
)

func TestSummaryHasAllNames(t *testing.T) {
	t.Parallel()
	r := demotest.Run(t.Context(), t, "-options 2 -records 10 -max-records 3 -scale 60")
	require.Zero(t, r.Code, r)
	for name, want := range map[string]string{
		"algorithm": `"gresil"`, "options": "2", "records": "10", "max_records": "3", "calls_per_minute": "100", "processes": "2",
		"scale": "60", "served": "10", "failed": "0", "lost": "0", "calls": "4", "ideal_calls": "4", "refused": "0", "deaths": "0",
		"ideal_seconds": "0.04", "slack_ms": "50", "skew_ms": "25", "judged": "true", "arrivals": "4", "over": "0", "too_big": "0", "bad": "0",
		"calls_by_option": `{"list-1:insert":2,"list-1:upsert":2}`, "accepted": "10", "unique": "10", "duplicates": "0",
		"void": "false", "ok": "true",
	} {
		require.Equal(t, want, string(r.Figures[name]), name)
	}
	for _, name := range []string{"run", "elapsed_seconds", "most_fixed", "most_sliding", "seconds", "stall_ms"} {
		require.Contains(t, r.Figures, name)
	}
	require.Len(t, r.Figures, 34)
	require.Regexp(t, `^vendor: http://127.0.0.1:\d+\nprocess 1: pid \d+\nprocess 2: pid \d+\n`, r.Stderr)
}

func TestTextHasControlBeside(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	args := strings.Fields("-options 2 -records 300 -max-records 3 -processes 1 -calls-per-minute 100 -scale 20")
	code := run(t.Context(), args, &stdout, &stderr)
	require.Contains(t, []int{0, 3}, code, &stdout)
	require.Regexp(t, `^The vendor accepts 100 calls in any 3s, and 3 records in a call. 1 processes add 300 records, in 2 options.

 +gresil +naive \(control\) +
served +300 +\d+ +Records that the vendor accepted, by its answers.
(\w+ +[\d.]+ +[\d.]+ +[A-Z].*\.
)+(?:ok: all records were served by the smallest number of calls, and no minute was above the limit|VOID: .*)
the control broke the limit, as expected: .*
$`, stdout.String())
	require.Regexp(t, `(?m)^\d+s: \d+ of 300 records, 0 failed; \d+ calls, 0 refused, \d+s left$`, stderr.String())
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		figures, args string
		code          int
		problem       string
	}{
		"ok":              {`"most_sliding":100`, "", 0, ""},
		"over":            {`"most_sliding":101,"over":1`, "", 1, "1 calls were refused; 101 calls in a minute, the limit is 100"},
		"no stall":        {`"most_sliding":101,"stall_ms":0`, "", 1, "101 calls in a minute, the limit is 100"},
		"a stall":         {`"most_sliding":101,"stall_ms":10000.1`, "", 3, "101 calls in a minute, the limit is 100"},
		"too big":         {`"too_big":2,"bad":3,"stall_ms":10000.1`, "", 1, "2 calls were too big; 3 calls were malformed"},
		"duplicates":      {`"duplicates":4`, "", 1, "4 records arrived again"},
		"lost":            {`"unique":7`, "", 1, "7 of 9 records arrived"},
		"calls of others": {`"records":18`, "", 0, ""},
		"a text":          {`"records":"9"`, "", 0, ""},
		"a control": {
			`"most_sliding":101,"over":1,"stall_ms":10000.1`, "-algorithm naive", 0,
			"1 calls were refused; 101 calls in a minute, the limit is 100",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := foreign()
			f.Figures = `{"arrivals":7,"seconds":1.25,` + c.figures + `,"other":1}`
			url := f.Start(t, pattern)
			var r demotest.Output
			for range 5 { // a stall of this machine would be one too
				r = demotest.Run(t.Context(), t, "-options 2 -records 9 -processes 1 -scale 60 -vendor %s %s", url, c.args)
				if c.code == 3 || r.Num("stall_ms") <= r.Num("skew_ms") {
					break
				}
			}
			require.Equal(t, c.code, r.Code, r)
			require.Equal(t, c.code == 3, r.Is("void"))
			require.Equal(t, c.problem == "", r.Is("ok"))
			require.Equal(t, c.problem, r.Text("problem"))
			require.True(t, r.Is("judged"))
			require.Equal(t, []int{7}, r.Nums("arrivals"))
		})
	}
}

func TestRecordsOfRepeatedCall(t *testing.T) {
	t.Parallel()
	k := newTask(config{Records: 11, terms: terms{Options: 1, Scale: 1}}, &demo.Screen{Writer: io.Discard})
	for _, word := range []string{"called", "served", "called", "served"} {
		k.Line(nil, word, 4, "a")
	}
	k.Line(nil, "gave-up", 1, "")
	k.Line(&demo.Process{}, "gave-up", 1, "")
	k.Line(nil, "gave-up", 2, "")
	k.Line(nil, "wrong", 1, "too long a name")
	k.Line(nil, "wrong", 1, "other")
	k.Line(nil, "served", 4, "b")
	done, total, text := k.Progress()
	require.Equal(t, [2]int{11, 11}, [2]int{done, total})
	require.Equal(t, "8 of 11 records, 3 failed; 2 calls, 0 refused", text)
	require.Equal(t, "too long a name", k.workers.Error)
}
