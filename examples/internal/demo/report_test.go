package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
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

// A vendor that cannot be reached, or judged, is an error before the first call.
func TestLoad(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status  int
		judge   string
		err     error // of the calls
		problem string
		calls   bool
		judged  bool
	}{
		"judged":        {200, `{"arrivals":1}`, nil, "", true, true},
		"no judge":      {404, "", nil, "", true, false},
		"a failed run":  {200, `{"arrivals":1}`, errors.New("broken pipe"), "broken pipe", true, false},
		"a broken one":  {503, "", nil, "/judge answers 503 Service Unavailable: must be 200 with JSON, or 404", false, false},
		"no object":     {200, "fine", nil, "/judge must answer with a JSON object of numbers", false, false},
		"out of reach":  {0, "", nil, "no answer from http://127.0.0.1:1: dial tcp", false, false},
		"not even HTTP": {-1, "", nil, "unsupported protocol scheme", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.judge)
			}))
			t.Cleanup(srv.Close)
			f := &Flags{Vendor: map[int]string{0: "http://127.0.0.1:1", -1: "h:80"}[c.status]}
			if f.Vendor == "" {
				f.Vendor = srv.URL
			}
			called := false
			r := &Report{}
			r.Load(t.Context(), f, &Screen{Writer: io.Discard}, false, func(context.Context) error {
				called = true
				return c.err
			})
			require.Equal(t, c.calls, called)
			require.Equal(t, c.problem != "", r.err != nil)
			require.Contains(t, strings.Join(r.problems, "; "), c.problem)
			require.Equal(t, c.judged, r.values["judged"])
		})
	}
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
	require.JSONEq(t, `{"algorithm":"gresil","calls":3,"scale":0.5,"served":3,"which":["a","b"],"arrivals":1.50,"ok":true}`, string(text))
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
