package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/program"
	"github.com/gresil/gresil/examples/internal/programtest"
)

func TestTheVendorOverHTTP(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(newVendor(newArrivals(), &program.Stall{}))
	t.Cleanup(srv.Close)
	call := http.Header{"Idempotency-Key": {"a/1"}, "X-Campaign": {"a"}}
	resp, body := programtest.Request(t, http.MethodPost, srv.URL+"/call", call, "")
	require.Equal(t, http.StatusNoContent, resp.StatusCode)
	require.Empty(t, body)
	for _, bad := range []http.Header{{}, {"Idempotency-Key": {"a/1"}}, {"X-Campaign": {"a"}}} {
		resp, _ = programtest.Request(t, http.MethodPost, srv.URL+"/call", bad, "")
		require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	}
	resp, _ = programtest.Request(t, http.MethodGet, srv.URL+"/call", call, "")
	require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
	resp, body = programtest.Request(t, http.MethodGet, srv.URL+"/judge", http.Header{}, "")
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.JSONEq(t, `{"arrivals":1,"unique":1,"duplicates":0,"most_sliding":1,"most_fixed":1,"seconds":0,"stall_ms":0}`, body)
}

// A foreign vendor is not ours.
type foreign struct {
	call, judge http.HandlerFunc

	mu   sync.Mutex
	seen []http.Header // of the calls
}

func (f *foreign) start(t *testing.T) (url string) {
	t.Helper()
	return programtest.ForeignVendor(t, "POST /call", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.seen = append(f.seen, r.Header)
		f.mu.Unlock()
		if f.call != nil {
			f.call(w, r)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}, f.judge)
}

func TestAVendorWithoutAJudge(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"gresil", "naive"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			var f foreign
			r := runJSON(t.Context(), t, "-campaigns 3 -calls 5 -workers 1 -cps 100 -vendor %s -algorithm %s", f.start(t), algorithm)
			require.Zero(t, r.Code, r)
			require.False(t, r.Judged)
			require.Equal(t, 15, r.Served)
			for _, name := range []string{"arrivals", "unique", "duplicates", "most_sliding", "most_fixed", "seconds"} {
				require.NotContains(t, r.JSON, name)
			}
			require.Contains(t, r.JSON, "stall_ms")
			keys := map[string]bool{}
			for _, header := range f.seen {
				m := regexp.MustCompile(`^(\w{8}-[1-3])/[1-5]$`).FindStringSubmatch(header.Get("Idempotency-Key"))
				require.NotNil(t, m, header)
				require.Equal(t, m[1], header.Get("X-Campaign"))
				require.True(t, strings.HasPrefix(m[1], r.Run+"-"))
				keys[m[0]] = true
			}
			require.Len(t, keys, 15)
		})
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, figures, args string
		code                int
		void                bool
		problem             string
	}{
		{"within the limit", `"most_fixed":100,"most_sliding":100,"stall_ms":900`, "", 0, false, ""},
		{"a second of the clock", `"most_fixed":101,"most_sliding":101`, "", 1, false, "101 calls in a second of the clock, the limit is 100; 101 calls in a second, the limit is 100"},
		{"a sliding second", `"most_fixed":99,"most_sliding":142`, "", 1, false, "142 calls in a second, the limit is 100"},
		{"no stall of the vendor explains it", `"most_fixed":99,"most_sliding":101,"stall_ms":0`, "", 1, false, "101 calls in a second, the limit is 100"},
		{"a stall", `"most_fixed":99,"most_sliding":101,"stall_ms":10000.1`, "", 3, true, "101 calls in a second, the limit is 100"},
		{"a control", `"most_fixed":101,"most_sliding":101,"stall_ms":10000.1`, "-algorithm naive", 0, false, "101 calls in a second of the clock, the limit is 100; 101 calls in a second, the limit is 100"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := foreign{judge: func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"arrivals":7,"unique":5,"duplicates":2,"seconds":1.25,`+c.figures+`,"other":1}`)
			}}
			var r result
			for range 5 { // a stall of this machine would be one too
				r = runJSON(t.Context(), t, "-campaigns 2 -calls 1 -workers 1 -cps 100 -vendor %s %s", f.start(t), c.args)
				if c.code == 3 || r.Stall <= r.Skew {
					break
				}
			}
			require.Equal(t, c.code, r.Code, r)
			require.Equal(t, c.void, r.Void)
			require.Equal(t, c.problem == "", r.OK)
			require.Equal(t, c.problem, r.Problem)
			require.Contains(t, r.Stdout, `"judged":true,"arrivals":7,"unique":5,"duplicates":2,"most_sliding":`)
		})
	}
}

// TestAStallDoesNotExplainARunThatIsTooFast: 10 seconds of calls took one.
func TestAStallDoesNotExplainARunThatIsTooFast(t *testing.T) {
	t.Parallel()
	s := summary{Algorithm: "gresil", CPS: 10, Campaigns: 1, Calls: 100, Served: 100, Ideal: 10, Skew: 20, figures: &figures{MostSliding: "11", Stall: "60"}}
	for elapsed, void := range map[float64]bool{1: false, 8.9: false, 9.1: true, 12: true} {
		s.Elapsed = elapsed
		require.Equal(t, void, s.fail(nil).Void, elapsed)
	}
}

func TestOtherAnswersFailACall(t *testing.T) {
	t.Parallel()
	f := foreign{call: func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Header.Get("Idempotency-Key"), "-1/2") {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}}
	url := f.start(t)
	r := runJSON(t.Context(), t, "-campaigns 2 -calls 3 -workers 1 -vendor %s", url)
	require.Equal(t, 1, r.Code, r)
	require.Equal(t, 5, r.Served)
	require.Equal(t, 1, r.Failed)
	require.Equal(t, "1 of 6 calls were not served; 1 failed, the first: the vendor at "+strings.TrimSuffix(url, "/")+" answers 418 I'm a teapot to a call: must be 204", r.Problem)
}

func TestAJudgeThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	for want, judge := range programtest.FailingJudges() {
		for _, algorithm := range []string{"gresil", "naive"} {
			f := foreign{judge: judge}
			r := runJSON(t.Context(), t, "-campaigns 1 -calls 2 -workers 1 -vendor %s -algorithm %s", f.start(t), algorithm)
			require.Equal(t, 1, r.Code, r)
			require.False(t, r.Judged)
			require.Contains(t, r.Problem, want)
		}
	}
}

func TestAVendorThatCannotBeReached(t *testing.T) {
	t.Parallel()
	const url = "http://" + programtest.Unreachable
	for _, algorithm := range []string{"gresil", "naive"} {
		r := runJSON(t.Context(), t, "-workers 1 -vendor %s -algorithm %s", url, algorithm)
		require.Equal(t, 1, r.Code, r)
		require.Zero(t, r.Served)
		require.Less(t, r.Failed, 200)
		require.Contains(t, r.Problem, "no answer from the vendor at "+url+": dial tcp")
	}
}

func TestARedisThatCannotBeReached(t *testing.T) {
	t.Parallel()
	const addr = programtest.Unreachable
	for _, algorithm := range []string{"gresil", "article"} {
		r := runJSON(t.Context(), t, "-redis %s -algorithm %s", addr, algorithm)
		require.Equal(t, 1, r.Code, r)
		require.Contains(t, r.Problem, "redis at "+addr+": dial tcp")
	}
}

// TestRedisIsNeededUnlessOneWorkerDoesWithout: redis-server is not installed.
func TestRedisIsNeededUnlessOneWorkerDoesWithout(t *testing.T) {
	t.Parallel()
	const small = " -campaigns 2 -calls 3"
	programtest.WithoutRedisServer(t, map[string]string{
		"-workers 2" + small:                    "redis-server is not installed: install it, or give the -redis HOST:PORT of one that runs",
		"-workers 1 -algorithm article" + small: "redis-server is not installed",
		"-workers 1" + small:                    "",
		"-workers 2 -algorithm naive" + small:   "",
	})
}

// TestAWorkerEndsWithItsInput: a call that is sent is finished, and one that waits is dropped.
func TestAWorkerEndsWithItsInput(t *testing.T) {
	t.Parallel()
	var f foreign
	told := `{"Run":"r","Vendor":"` + strings.TrimSuffix(f.start(t), "/") + `","Algorithm":"gresil","Campaigns":2,"CPS":1,"Sockets":1}`
	in, out := io.Pipe()
	ended := make(chan int, 1)
	lines, stdout := io.Pipe()
	go func() {
		var stderr bytes.Buffer
		ended <- runWorker(told, in, stdout, &stderr)
		_ = stdout.Close()
	}()
	scanner := bufio.NewScanner(lines)
	next := func() string {
		for scanner.Scan() {
			if !strings.HasPrefix(scanner.Text(), "stats ") {
				return scanner.Text()
			}
		}
		return ""
	}
	require.Equal(t, "ready", next())
	_, err := io.WriteString(out, "3\n")
	require.NoError(t, err)
	require.Equal(t, "run 3 1", next())
	require.Equal(t, "started 3", next())
	line := next()
	for line == "started 3" { // its permit was stale before it was sent
		line = next()
	}
	require.Equal(t, "done 3", line)
	_, err = io.WriteString(out, "4\n") // it waits for a second
	require.NoError(t, err)
	require.NoError(t, out.Close())
	last := ""
	for scanner.Scan() {
		last = scanner.Text()
	}
	require.Regexp(t, `^stats 1 0 \d+$`, last)
	require.Zero(t, <-ended)
	require.Len(t, f.seen, 1)
	require.Equal(t, "r-2/2", f.seen[0].Get("Idempotency-Key"))
	require.Equal(t, "r-2", f.seen[0].Get("X-Campaign"))
}

func TestASummaryHasAllNames(t *testing.T) {
	t.Parallel()
	r := runJSON(t.Context(), t, "-campaigns 2 -calls 5 -workers 2 -cps 100")
	require.Zero(t, r.Code, r)
	for name, want := range map[string]any{
		"algorithm": "gresil", "engine": "memory", "runs_per_call": 1.0, "retried": 0.0, "campaigns": 2.0, "calls": 5.0, "workers": 2.0, "cps": 100.0, "kill": 0.0,
		"served": 10.0, "failed": 0.0, "deaths": 0.0, "in_flight": []any{}, "lost": 0.0, "ideal_seconds": 0.1, "slack_ms": 50.0, "skew_ms": 20.0,
		"judged": true, "arrivals": 10.0, "unique": 10.0, "duplicates": 0.0, "void": false, "ok": true,
	} {
		require.Equal(t, want, r.JSON[name], name)
	}
	for _, name := range []string{
		"run", "elapsed_seconds", "worst_half", "best_half", "checks_per_call", "stale", "redis_cpu_percent",
		"most_sliding", "most_fixed", "seconds", "stall_ms",
	} {
		require.Contains(t, r.JSON, name)
	}
	require.Len(t, r.JSON, 34)
	require.Regexp(t, `^vendor: http://127.0.0.1:\d+\nworker 1: pid \d+\nworker 2: pid \d+\n$`, r.Stderr, "no progress without a terminal")
}

func TestASummaryAsText(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), strings.Fields("-campaigns 2 -calls 5 -workers 1 -cps 100"), &stdout, &stderr), &stderr)
	require.Regexp(t, `^algorithm +gresil
engine +memory
calls +5 of each of 2 campaigns, from 1 workers, 100 a second
served +10
failed +0
deaths +0
in_flight +0
lost +0
judged +true
arrivals +10
unique +10
duplicates +0
most_fixed +\d+
most_sliding +10
seconds +0.\d+
elapsed_seconds +0.\d+, ideal 0.1
half_time +\d+ % of the worst campaign, \d+ % of the best
checks_per_call +[\d.]+
runs_per_call +1
retried +0
stale +\d+
redis_cpu_percent +0
stall_ms +\S+, slack 50, skew 20
ok: all calls were served, and no second was above the limit
$`, stdout.String())
}

// TestCallsInFlightAtAKillAreListed: the vendor answers late, so that there are some. No other call
// arrives twice, and none is lost.
func TestCallsInFlightAtAKillAreListed(t *testing.T) {
	t.Parallel()
	f := foreign{call: func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(100 * time.Millisecond) // the latency
		w.WriteHeader(http.StatusNoContent)
	}}
	r := runBinary(t.Context(), t, io.Discard, "-campaigns 4 -calls 60 -workers 2 -cps 150 -kill 2 -vendor %s", f.start(t))
	require.Zero(t, r.Code, r.Stdout)
	require.Equal(t, 2, r.Deaths)
	require.NotEmpty(t, r.InFlight)
	require.Equal(t, 240, r.Served+r.Lost)
	f.mu.Lock()
	defer f.mu.Unlock()
	times := map[string]int{}
	for _, header := range f.seen {
		times[header.Get("Idempotency-Key")]++
	}
	require.GreaterOrEqual(t, len(times), 240-r.Lost)
	for key, n := range times {
		if slices.Contains(r.InFlight, key) {
			require.LessOrEqual(t, n, 2, key)
		} else {
			require.Equal(t, 1, n, key)
		}
	}
}
