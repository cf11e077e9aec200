package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/examples/internal/demotest"
	"github.com/gresil/gresil/internal/redisserver"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	demotest.WrongCommandLines(t, command(), map[string]string{
		"-colour red":                          "flag provided but not defined: -colour",
		"extra":                                `campaigns: unexpected argument "extra": there are only flags`,
		"-calls 0":                             `invalid value "0" for flag -calls: must be a whole number, 1 to 1000000`,
		"-campaigns -1":                        `invalid value "-1" for flag -campaigns: must be a whole number, 1 to 10000`,
		"-campaigns 100 -calls 1000000":        "campaigns: -campaigns 100 -calls 1000000: must be 10000000 calls in total at most",
		"-workers 65":                          `invalid value "65" for flag -workers`,
		"-cps none":                            `invalid value "none" for flag -cps: must be a whole number, 1 to 100000`,
		"-engine river":                        `invalid value "river" for flag -engine: must be memory, asynq`,
		"vendor extra":                         `campaigns vendor: unexpected argument "extra": there are only flags`,
		"-calls 5 -workers 2 -json=false -- x": `unexpected argument "x"`,
	})
}

func TestRedisIsNeeded(t *testing.T) {
	t.Parallel()
	for c, want := range map[config]bool{
		{Workers: 2}:                  true,
		{Workers: 1}:                  false,
		{Workers: 1, Engine: "asynq"}: true,
		{Workers: 2, Flags: demo.Flags{Algorithm: demo.Control}}: false,
	} {
		require.Equal(t, want, c.needsRedis(), c)
	}
}

func TestVendorOverHTTP(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(newVendor(t.Context()))
	t.Cleanup(srv.Close)
	call := http.Header{"Idempotency-Key": {"a/1"}, "X-Campaign": {"a"}}
	resp, _ := demotest.Request(t, http.MethodPost, srv.URL+"/call", call, "")
	require.Equal(t, http.StatusNoContent, resp.StatusCode)
	for _, bad := range []http.Header{{}, {"Idempotency-Key": {"a/1"}}, {"X-Campaign": {"a"}}} {
		resp, _ = demotest.Request(t, http.MethodPost, srv.URL+"/call", bad, "")
		require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	}
	_, body := demotest.Request(t, http.MethodGet, srv.URL+"/judge", http.Header{}, "")
	var f demo.Figures
	require.NoError(t, json.Unmarshal([]byte(body), &f))
	require.Equal(t, []int{1, 1, 0, 1, 1, 0}, demotest.Output{Figures: f}.Nums("arrivals", "unique", "duplicates", "most_sliding", "most_fixed", "seconds"))
	require.Contains(t, f, "stall_ms")
}

// runBinary runs the program with -json, as a process of its own. It is interrupted when ctx ends.
func runBinary(ctx context.Context, t *testing.T, stderr io.Writer, format string, args ...any) demotest.Output {
	t.Helper()
	return demotest.RunBinary(ctx, t, stderr, format, args...)
}

// repeated repeats a test with a lower limit if the machine stalled, and the run is void for that.
func repeated(t *testing.T, cps float64, test func(cps float64) demotest.Output) demotest.Output {
	t.Helper()
	return demotest.Repeat(t, cps, 2./3, func(cps float64) demotest.Output { return test(float64(int(cps))) })
}

// inFlight returns the calls that were in flight at the death of a worker.
func inFlight(r demotest.Output) (keys []string) {
	_ = json.Unmarshal(r.Figures["in_flight"], &keys) // the test fails without any
	return keys
}

// requireServed checks that all calls were served within the limit, and that no call arrived twice but those that were in
// flight at the death of a worker. How long they took is judged by the soak.
func requireServed(t *testing.T, r demotest.Output) {
	t.Helper()
	require.Zero(t, r.Code, r.Stdout)
	require.True(t, r.Is("ok"))
	total := r.Num("campaigns") * r.Num("calls")
	require.InDelta(t, total, r.Num("served"), 0)
	require.InDelta(t, total, r.Num("unique"), 0)
	require.LessOrEqual(t, r.Num("most_fixed"), r.Num("cps"))
	require.LessOrEqual(t, r.Num("most_sliding"), r.Num("cps"))
	require.LessOrEqual(t, int(r.Num("duplicates")), len(inFlight(r)))
}

// 20 campaigns of 100 calls from 4 processes, one of which is killed on the way.
func TestCampaignsWithKill(t *testing.T) {
	t.Parallel()
	r := repeated(t, 1000, func(cps float64) demotest.Output {
		return runBinary(t.Context(), t, io.Discard, "-calls 100 -cps %g -kill 1", cps)
	})
	requireServed(t, r)
	require.Equal(t, []int{1}, r.Nums("deaths"))
	// In turn, all would be at 0.5, and one after the other at 0 and 1. The calls of the worker that died come later.
	require.Less(t, r.Num("best_half")-r.Num("worst_half"), 0.5)
	require.InDelta(t, 1, r.Num("checks_per_call"), 0.2)
	require.Positive(t, r.Num("redis_cpu_percent"))
}

// Each handler runs once, no job is retried, and the queue is removed.
func TestCampaignsOnAsynq(t *testing.T) {
	t.Parallel()
	redis, err := redisserver.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(redis.Kill)
	r := repeated(t, 300, func(cps float64) demotest.Output {
		return runBinary(t.Context(), t, io.Discard, "-calls 25 -workers 2 -cps %g -engine asynq -redis %s", cps, redis.Addr)
	})
	requireServed(t, r)
	require.Equal(t, "asynq", r.Text("engine"))
	require.Equal(t, []int{1, 0}, r.Nums("runs_per_call", "retried"))
	queues, err := redis.Do("smembers asynq:queues")
	require.NoError(t, err)
	require.Empty(t, queues)
}

// The limit is in memory.
func TestOneWorkerWithoutRedis(t *testing.T) {
	t.Parallel()
	r := repeated(t, 200, func(cps float64) demotest.Output {
		return runBinary(t.Context(), t, io.Discard, "-campaigns 3 -calls 100 -workers 1 -cps %g", cps)
	})
	requireServed(t, r)
	require.Zero(t, r.Num("redis_cpu_percent"))
	require.InDelta(t, 1, r.Num("checks_per_call"), 0.2)
}

func TestControlBreaksLimit(t *testing.T) {
	t.Parallel()
	for cps := 300; ; cps /= 2 { // a machine with other work may be too slow to break a higher limit
		r := runBinary(t.Context(), t, io.Discard, "-calls 100 -cps %d -algorithm naive", cps)
		if int(r.Num("most_sliding")) <= cps && cps > 50 {
			continue
		}
		require.Zero(t, r.Code, r)
		require.False(t, r.Is("ok"))
		require.Greater(t, int(r.Num("most_sliding")), cps)
		require.Contains(t, r.Text("problem"), fmt.Sprintf("calls in a second, the limit is %d", cps))
		return
	}
}

// They have one Redis and one vendor.
func TestTwoRunsShareLimit(t *testing.T) {
	t.Parallel()
	redis, err := redisserver.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(redis.Kill)
	repeated(t, 400, func(cps float64) demotest.Output {
		srv := httptest.NewServer(newVendor(t.Context()))
		t.Cleanup(srv.Close)
		var runs [2]demotest.Output
		var wg sync.WaitGroup
		for i := range runs {
			wg.Go(func() {
				runs[i] = runBinary(t.Context(), t, io.Discard, "-calls 25 -workers 2 -cps %g -redis %s -vendor %s", cps, redis.Addr, srv.URL)
			})
		}
		wg.Wait()
		for _, r := range runs {
			if r.Code == 3 {
				return r
			}
			require.Zero(t, r.Code, r.Stdout)
		}
		f, err := demo.Judge(t.Context(), srv.URL)
		require.NoError(t, err)
		require.Equal(t, []int{2 * 20 * 25, 2 * 20 * 25}, demotest.Output{Figures: f}.Nums("unique", "arrivals"))
		require.LessOrEqual(t, f.Num("most_sliding"), cps)
		return runs[0]
	})
}

// pids reads the standard error of the program: it has the workers that have not ended.
type pids struct {
	mu    sync.Mutex
	alive map[string]int // by name
}

var workerLine = regexp.MustCompile(`(?m)^(worker \d+)(?:: pid (\d+)| has ended)$`)

func (p *pids) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range workerLine.FindAllStringSubmatch(string(text), -1) {
		delete(p.alive, m[1])
		if pid, err := strconv.Atoi(m[2]); err == nil {
			p.alive[m[1]] = pid
		}
	}
	return len(text), nil
}

// any returns the number of workers, and one of them.
func (p *pids) any() (n, pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pid := range p.alive {
		return len(p.alive), pid
	}
	return 0, 0
}

// Workers stand still for a while, or end and are replaced.
func TestWorkersStopAtRandom(t *testing.T) {
	t.Parallel()
	r := repeated(t, 400, func(cps float64) demotest.Output {
		p := &pids{alive: map[string]int{}}
		ctx, cancel := context.WithCancel(t.Context())
		var disturber sync.WaitGroup
		disturber.Go(func() {
			for i := 1; ctx.Err() == nil; i++ {
				_ = demo.Sleep(ctx, time.Duration(200+rand.IntN(400))*time.Millisecond)
				switch n, pid := p.any(); {
				case n == 0:
				case i%3 == 0:
					_ = syscall.Kill(pid, syscall.SIGKILL)
				default:
					_ = syscall.Kill(pid, syscall.SIGSTOP)
					_ = demo.Sleep(ctx, time.Duration(50+rand.IntN(400))*time.Millisecond)
					_ = syscall.Kill(pid, syscall.SIGCONT)
				}
			}
		})
		r := runBinary(t.Context(), t, p, "-calls 80 -cps %g", cps)
		cancel()
		disturber.Wait()
		return r
	})
	requireServed(t, r)
	require.Positive(t, r.Num("deaths"))
	require.Greater(t, r.Num("stall_ms"), 50.0)
}

func TestInterruptEndsAllProcesses(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	vendor := newVendor(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		vendor.ServeHTTP(w, r)
		if r.Method == http.MethodPost {
			cancel()
		}
	}))
	t.Cleanup(srv.Close)
	p := &pids{alive: map[string]int{}}
	r := runBinary(ctx, t, p, "-cps 100 -vendor %s", srv.URL)
	require.Equal(t, 1, r.Code, r)
	require.Contains(t, r.Text("problem"), "interrupted; ")
	require.True(t, r.Is("judged"))
	require.Positive(t, r.Num("served"))
	require.InDelta(t, r.Num("served"), r.Num("arrivals"), 0, "calls in flight are waited for")
	require.Len(t, p.alive, 4)
	for _, pid := range p.alive {
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	}
}
