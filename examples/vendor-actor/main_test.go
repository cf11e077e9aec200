package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/program"
	"github.com/gresil/gresil/examples/internal/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

// runJSON runs the program with -json, in this process and its children.
func runJSON(ctx context.Context, t *testing.T, args string) programtest.Output {
	t.Helper()
	return programtest.Run(ctx, t, command(), &summary{figures: &figures{}}, args)
}

func TestGresilServesALoadThatBreaksTheControls(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			const load = "-calls 130 -rate 1000 -capacity 60 -limit 50 -scale 2 -algorithm "
			var r programtest.Output
			if algorithm == "gresil" {
				r = runJSON(t.Context(), t, load+algorithm)
			} else {
				for range 5 { // if the machine is too slow for the load, the run shows nothing
					url := programtest.StartVendor(t, "-scale", "2")
					tripped := programtest.Until(t, url, func(f *figures) bool { return program.Value(f.Trips) > 0 })
					if r = runJSON(tripped, t, load+algorithm+" -vendor "+url); r.JSON["ok"] == false {
						break
					}
				}
			}
			require.Zero(t, r.Code, r)
			require.Equal(t, true, r.JSON["judged"])
			if algorithm == "gresil" {
				require.Equal(t, true, r.JSON["ok"], r)
				require.EqualValues(t, 130, r.JSON["served"])
				require.EqualValues(t, 130, r.JSON["arrivals"])
				require.EqualValues(t, 0, r.JSON["trips"])
				require.LessOrEqual(t, r.JSON["most_sliding"], 100.0)
				return
			}
			require.Equal(t, false, r.JSON["ok"], r)
			require.Less(t, r.JSON["served"], 130.0)
			require.GreaterOrEqual(t, r.JSON["trips"], 1.0)
			require.Greater(t, r.JSON["most_sliding"], 100.0)
			require.Contains(t, r.JSON["problem"], "interrupted; ")
			require.Contains(t, r.JSON["problem"], "; trips: 1")
		})
	}
}

func TestASummaryHasTheNamesAndFiguresOfTheVendor(t *testing.T) {
	t.Parallel()
	r := runJSON(t.Context(), t, "-calls 5 -scale 10")
	require.Zero(t, r.Code, r)
	for name, want := range map[string]any{
		"algorithm": "gresil", "calls": 5.0, "rate": 120.0, "capacity": 8.0, "limit": 0.0, "scale": 10.0,
		"served": 5.0, "failed": 0.0, "judged": true, "ok": true,
		"arrivals": 5.0, "unique": 5.0, "duplicates": 0.0, "trips": 0.0, "escalations": 0.0, "worst_penalty_s": 0.0,
	} {
		require.Equal(t, want, r.JSON[name], name)
	}
	for _, name := range []string{"most_sliding", "most_fixed", "seconds"} {
		require.Positive(t, r.JSON[name], name)
	}
	require.Len(t, r.JSON, 19)
	require.Regexp(t, `^vendor: http://127.0.0.1:\d+\n`, r.Stderr)
	require.NotContains(t, r.Stderr, "\r", "no bar without a terminal")
}

func TestASummaryAsText(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-calls", "5", "-scale", "10"}, &stdout, &stderr), &stderr)
	require.Regexp(t, `^algorithm +gresil
calls +5, 120 a second of the vendor, scale 10
served +5
failed +0
judged +true
arrivals +5
unique +5
duplicates +0
most_sliding +\d
most_fixed +\d
seconds +0.\d+
trips +0
escalations +0
worst_penalty_s +0
ok: all calls were served, and no limit was broken
$`, stdout.String())
}

// A foreign vendor is not ours.
type foreign struct {
	report, judge http.HandlerFunc

	mu   sync.Mutex
	seen []string // the queries, in order
}

func (f *foreign) start(t *testing.T) (url string) {
	t.Helper()
	return programtest.ForeignVendor(t, "GET /report", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.seen = append(f.seen, r.URL.RawQuery)
		f.mu.Unlock()
		if f.report != nil {
			f.report(w, r)
		}
	}, f.judge)
}

func TestAVendorWithoutAJudge(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms() {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			var f foreign
			r := runJSON(t.Context(), t, "-calls 9 -rate 1000 -vendor "+f.start(t)+" -algorithm "+algorithm)
			require.Zero(t, r.Code, r)
			require.Equal(t, false, r.JSON["judged"])
			require.EqualValues(t, 9, r.JSON["served"])
			require.NotContains(t, r.JSON, "arrivals")
			require.NotContains(t, r.JSON, "trips")
			require.Len(t, f.seen, 9)
			ns := map[string]bool{}
			for _, query := range f.seen {
				m := regexp.MustCompile(`^account=[\w-]+&n=(\d+)$`).FindStringSubmatch(query)
				require.NotNil(t, m, query)
				ns[m[1]] = true
			}
			require.Len(t, ns, 9, "each call has an n of its own")
		})
	}
}

func TestFiguresAreThoseOfTheVendor(t *testing.T) {
	t.Parallel()
	answer := `{"arrivals":7,"unique":5,"duplicates":2,"most_sliding":3,"most_fixed":2,"seconds":1.25,"trips":%,"escalations":0,"worst_penalty_s":0.5,"other":1}`
	for trips, code := range map[string]int{"0": 0, "2": 1} {
		text := strings.Replace(answer, "%", trips, 1)
		f := foreign{judge: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }}
		r := runJSON(t.Context(), t, "-calls 2 -rate 1000 -scale 3 -vendor "+f.start(t))
		require.Equal(t, code, r.Code, r)
		require.Contains(t, r.Stdout, `"judged":true,`+strings.TrimSuffix(strings.TrimPrefix(text, "{"), `,"other":1}`))
	}
}

func TestAJudgeThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	for want, judge := range programtest.FailingJudges() {
		for _, algorithm := range algorithms() {
			f := foreign{judge: judge}
			r := runJSON(t.Context(), t, "-calls 2 -rate 1000 -vendor "+f.start(t)+" -algorithm "+algorithm)
			require.Equal(t, 1, r.Code, r)
			require.Equal(t, false, r.JSON["judged"])
			require.Contains(t, r.JSON["problem"], want)
		}
	}
}

// TestAPauseIsTheOneOfTheVendor: X-Retry-After-Ms wins, and the scale changes neither header.
func TestAPauseIsTheOneOfTheVendor(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms() {
		for header, want := range map[string]time.Duration{"Retry-After: 1": time.Second, "Retry-After: 3600, X-Retry-After-Ms: 300": 300 * time.Millisecond} {
			t.Run(algorithm+"/"+header, func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				var refused, repeated time.Time
				f := foreign{report: func(w http.ResponseWriter, _ *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					if !refused.IsZero() {
						repeated = time.Now()
						return
					}
					refused = time.Now()
					for h := range strings.SplitSeq(header, ", ") {
						name, value, _ := strings.Cut(h, ": ")
						w.Header().Set(name, value)
					}
					w.WriteHeader(http.StatusTooManyRequests)
				}}
				r := runJSON(t.Context(), t, "-calls 1 -scale 100 -vendor "+f.start(t)+" -algorithm "+algorithm)
				require.Zero(t, r.Code, r)
				require.Len(t, f.seen, 2)
				require.Equal(t, f.seen[0], f.seen[1], "a repetition keeps its n")
				require.GreaterOrEqual(t, repeated.Sub(refused), want)
				require.Less(t, repeated.Sub(refused), 100*want)
			})
		}
	}
}

func TestOtherAnswersFailACall(t *testing.T) {
	t.Parallel()
	f := foreign{report: func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("n") == "2" {
			w.WriteHeader(http.StatusTeapot)
		}
	}}
	url := f.start(t)
	r := runJSON(t.Context(), t, "-calls 3 -rate 1000 -vendor "+url)
	require.Equal(t, 1, r.Code, r)
	require.EqualValues(t, 2, r.JSON["served"])
	require.Equal(t, "1 of 3 calls were not served; 1 failed, the first: the vendor at "+strings.TrimSuffix(url, "/")+" answers 418 I'm a teapot to a call", r.JSON["problem"])
}

func TestAVendorThatCannotBeReached(t *testing.T) {
	t.Parallel()
	const url = "http://" + programtest.Unreachable
	for _, algorithm := range algorithms() {
		for _, calls := range []string{"3", "100000"} {
			r := runJSON(t.Context(), t, "-rate 10000 -vendor "+url+" -algorithm "+algorithm+" -calls "+calls)
			require.Equal(t, 1, r.Code, r)
			require.EqualValues(t, 0, r.JSON["served"])
			require.Equal(t, false, r.JSON["judged"])
			require.Contains(t, r.JSON["problem"], "no answer from the vendor at "+url+": dial tcp")
		}
	}
}

func TestAnInterruptDrains(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	release := make(chan struct{})
	f := foreign{report: func(http.ResponseWriter, *http.Request) {
		cancel()
		<-release // the first call is on its way, and is waited for
	}, judge: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"arrivals":1}`) }}
	context.AfterFunc(ctx, func() { time.AfterFunc(100*time.Millisecond, func() { close(release) }) })
	r := runJSON(ctx, t, "-capacity 1 -vendor "+f.start(t))
	require.Equal(t, 1, r.Code, r)
	require.EqualValues(t, 1, r.JSON["served"])
	require.EqualValues(t, 1, r.JSON["arrivals"])
	require.EqualValues(t, 0, r.JSON["failed"])
	require.Equal(t, "interrupted; 5999 of 6000 calls were not served", r.JSON["problem"])
}
