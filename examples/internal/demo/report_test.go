package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReports(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		algorithm             string
		err                   error
		problem, broken, late bool
		code                  int
		verdict               string
	}{
		"ok":                        {algorithm: "gresil", verdict: "fine"},
		"a problem":                 {algorithm: "gresil", problem: true, code: 1, verdict: "FAILED: wrong"},
		"broken":                    {algorithm: "gresil", broken: true, code: 1, verdict: "FAILED: 2 calls"},
		"broken by a stall":         {algorithm: "gresil", broken: true, late: true, code: 3, verdict: "VOID: 2 calls, and the machine stalled for longer than the slack"},
		"a stall is no excuse":      {algorithm: "gresil", problem: true, broken: true, late: true, code: 1, verdict: "FAILED: wrong; 2 calls"},
		"a control":                 {algorithm: Control, broken: true, late: true, verdict: "the control broke the limit, as expected: 2 calls"},
		"a control within":          {algorithm: Control, problem: true, verdict: "FAILED: wrong"},
		"a control that is not run": {algorithm: Control, err: errors.New("no"), problem: true, code: 1, verdict: "FAILED: wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Report{Algorithm: c.algorithm, err: c.err}
			r.Problem(c.problem, "wrong")
			r.Broken(c.broken, c.late, "%d calls", 2)
			require.Equal(t, c.code, r.Code())
			require.Equal(t, c.code == 3, r.Void)
			require.Equal(t, c.verdict, r.verdict("fine"))
		})
	}
}

// No stall makes a run faster than the limit.
func TestStallExcusesRun(t *testing.T) {
	t.Parallel()
	for elapsed, want := range map[float64]bool{1: false, 8.9: false, 9.1: true, 12: true} {
		require.Equal(t, want, Excused(60, 20, elapsed, 10, 1), elapsed)
	}
	require.False(t, Excused(20, 20, 12, 10, 1))
}

func TestReportAsJSONAndText(t *testing.T) {
	t.Parallel()
	ours := &Report{Algorithm: "gresil", Figures: Figures{"seen": json.RawMessage("1.50")}}
	ours.Flags("calls", 3, "scale", 0.5)
	ours.Set("served", 3, "Calls that were served.")
	ours.Set("which", []string{"a", "b"}, "Calls that are listed.")
	ours.Take("arrivals", "seen", "Calls that were seen.")
	ours.Take("other", "not there", "None.")
	text, err := json.Marshal(ours)
	require.NoError(t, err)
	require.Equal(t, `{"algorithm":"gresil","calls":3,"scale":0.5,"served":3,"which":["a","b"],"arrivals":1.50,"ok":true}`, string(text))
	control := &Report{Algorithm: Control}
	control.Set("served", 1, "Calls that were served.")
	control.Broken(true, false, "a limit")
	var out bytes.Buffer
	show(&out, "fine", []*Report{ours, control})
	require.Equal(t, `           gresil   naive (control)   
served     3        1                 Calls that were served.
which      2        -                 Calls that are listed.
arrivals   1.50     -                 Calls that were seen.
fine
the control broke the limit, as expected: a limit
`, out.String())
}
