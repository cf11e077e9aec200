package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/examples/internal/program"
	"github.com/gresil/gresil/examples/internal/programtest"
	"github.com/gresil/gresil/internal/redisserver"
)

func TestMain(m *testing.M) { programtest.Main(m, main) }

// ran is a run of the program.
type ran struct {
	summary
	programtest.Output
}

// runJSON runs the program with -json, in this process and its children.
func runJSON(ctx context.Context, t *testing.T, format string, args ...any) (r ran) {
	t.Helper()
	r.figures = &figures{}
	r.Output = programtest.Run(ctx, t, command(), &r.summary, fmt.Sprintf(format, args...))
	return r
}

// runBinary is the same as a process of its own. It is interrupted when ctx ends.
func runBinary(ctx context.Context, t *testing.T, stderr io.Writer, format string, args ...any) (r ran) {
	t.Helper()
	r.figures = &figures{}
	r.Output = programtest.RunBinary(ctx, t, stderr, &r.summary, fmt.Sprintf(format, args...))
	return r
}

// repeated repeats a test with a longer minute if the run is void, since the machine stalled.
func repeated(t *testing.T, scale float64, test func(scale float64) ran) (r ran) {
	t.Helper()
	for range 4 {
		if r = test(scale); r.Code != 3 {
			return r
		}
		t.Logf("repeated: void %v, %v seconds instead of %v", r.Void, r.Elapsed, r.Ideal)
		scale /= 2
	}
	t.Fatal("the machine stalled each time")
	return r
}

// requireGrouped checks that all records were served once, by the smallest number of calls of each option,
// within the limit. How long they took is judged by the soak.
func requireGrouped(t *testing.T, r ran) {
	t.Helper()
	require.Zero(t, r.Code, r.Stdout)
	require.True(t, r.OK)
	require.Equal(t, r.Records, r.Served)
	require.Equal(t, r.IdealCalls, r.Calls)
	v := r.verdict(t)
	require.Equal(t, r.IdealCalls, v.Arrivals)
	require.Equal(t, r.Records, v.Unique)
	require.LessOrEqual(t, v.MostSliding, r.CallsPerMinute)
	require.LessOrEqual(t, v.MostFixed, r.CallsPerMinute)
	require.Zero(t, v.Over+v.TooBig+v.Bad+v.Duplicates)
	require.Len(t, v.Calls, r.Options)
	for i := range r.Options {
		n := share(r.Records, r.Options, i)
		require.Equal(t, (n+r.MaxRecords-1)/r.MaxRecords, v.Calls[optionName(i)], optionName(i))
	}
}

// verdict returns the figures of our vendor.
func (r *ran) verdict(t *testing.T) (v verdict) {
	t.Helper()
	require.True(t, r.Judged)
	require.NoError(t, json.Unmarshal([]byte(r.Stdout), &v))
	v.Records = int(program.Value(r.Accepted))
	require.Equal(t, v.Records, v.Unique+v.Duplicates)
	return v
}

func TestGroupedCallsOfTwoProcesses(t *testing.T) {
	t.Parallel()
	requireGrouped(t, repeated(t, 60, func(scale float64) ran {
		return runBinary(t.Context(), t, io.Discard, "-records 20000 -options 8 -max-records 200 -calls-per-minute 100 -processes 2 -scale %g", scale)
	}))
}

func TestGroupedCallsOfOneProcessInMemory(t *testing.T) {
	t.Parallel()
	requireGrouped(t, repeated(t, 60, func(scale float64) ran {
		return runBinary(t.Context(), t, io.Discard, "-records 30000 -options 3 -processes 1 -scale %g", scale)
	}))
}

// TestManySmallOptions: none waits for a call that is full.
func TestManySmallOptions(t *testing.T) {
	t.Parallel()
	requireGrouped(t, repeated(t, 60, func(scale float64) ran {
		return runBinary(t.Context(), t, io.Discard, "-records 1111 -options 150 -max-records 5 -calls-per-minute 250 -processes 3 -scale %g", scale)
	}))
}

// TestTwoRunsShareTheLimit: they have one Redis and one vendor, and records of their own.
func TestTwoRunsShareTheLimit(t *testing.T) {
	t.Parallel()
	redis, err := redisserver.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(redis.Kill)
	repeated(t, 50, func(scale float64) ran {
		url := programtest.StartVendor(t, "-scale", fmt.Sprint(scale))
		var runs [2]ran
		var wg sync.WaitGroup
		for i := range runs {
			wg.Go(func() {
				runs[i] = runBinary(t.Context(), t, io.Discard, "-records 4000 -max-records 50 -scale %g -redis %s -vendor %s", scale, redis.Addr, url)
			})
		}
		wg.Wait()
		for _, r := range runs {
			if r.Code == 3 {
				return r
			}
			require.Zero(t, r.Code, r.Stdout)
			require.Equal(t, 80, r.Calls, "each run is below the limit")
		}
		f, err := program.Judge[figures](t.Context(), url)
		require.NoError(t, err)
		require.InDelta(t, 8000, program.Value(f.Unique), 0)
		require.InDelta(t, 160, program.Value(f.Arrivals), 0)
		require.LessOrEqual(t, program.Value(f.MostSliding), 100.0)
		requireNoRecords(t, redis)
		return runs[0]
	})
}

// requireNoRecords checks that no group is left, and that each key which is left expires.
func requireNoRecords(t *testing.T, redis *redisserver.Server) {
	t.Helper()
	keys, err := redis.Do("keys gresil:groups:*")
	require.NoError(t, err)
	for key := range strings.FieldsSeq(keys) {
		ttl, err := redis.Do("ttl " + key)
		require.NoError(t, err)
		require.NotEqual(t, "-1", ttl, key)
	}
}

// TestTheOtherProcessTakesTheRecordsOfOneThatIsKilled: it has calls in flight, whose records arrive again
// with the same key, in the same calls. No call is answered from the tenth on until more are in flight than
// the other process makes at a time.
func TestTheOtherProcessTakesTheRecordsOfOneThatIsKilled(t *testing.T) {
	t.Parallel()
	killed, over := make(chan int, 1), make(chan struct{})
	var once sync.Once
	var f foreign
	f.merge = func(w http.ResponseWriter, _ *http.Request) {
		f.mu.Lock()
		n := len(f.seen)
		records := len(f.seen[n-1].body.Records)
		f.mu.Unlock()
		if n >= 10+concurrency+3 {
			once.Do(func() {
				_ = syscall.Kill(<-killed, syscall.SIGKILL)
				close(over)
			})
		}
		if n >= 10 {
			<-over
		}
		_, _ = io.WriteString(w, results(records))
	}
	pids := writerFunc(func(text []byte) (int, error) {
		if m := processLine.FindSubmatch(text); m != nil && string(m[1]) == "1" {
			killed <- core.Must(strconv.Atoi(string(m[2])))
		}
		return len(text), nil
	})
	r := runBinary(t.Context(), t, pids, "-options 4 -records 1000 -max-records 10 -scale 60 -vendor %s", f.start(t))
	require.Zero(t, r.Code, r.Stdout)
	require.Equal(t, 1, r.Deaths)
	require.Equal(t, 1000, r.Served)
	calls, numbers := map[string]string{}, map[float64]int{}
	for _, s := range f.seen {
		text, err := json.Marshal(s.body)
		require.NoError(t, err)
		if before, again := calls[s.key]; again {
			require.Equal(t, before, string(text))
			continue
		}
		calls[s.key] = string(text)
		for _, record := range s.body.Records {
			numbers[record["number"].(float64)]++
		}
	}
	require.Len(t, calls, 100)
	require.Len(t, numbers, 1000)
	for n, times := range numbers {
		require.Equal(t, 1, times, n)
	}
	require.Greater(t, len(f.seen), 100, "calls were in flight")
}

type writerFunc func(text []byte) (int, error)

func (f writerFunc) Write(text []byte) (int, error) { return f(text) }

// TestAnInterruptDrains: calls that are sent are waited for, and the other records deleted.
func TestAnInterruptDrains(t *testing.T) {
	t.Parallel()
	redis, err := redisserver.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(redis.Kill)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := foreign{}
	f.merge = func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		time.Sleep(100 * time.Millisecond) // the call is on its way
		_, _ = io.WriteString(w, results(10))
	}
	r := runBinary(ctx, t, io.Discard, "-options 1 -records 100 -max-records 10 -calls-per-minute 10 -redis %s -vendor %s", redis.Addr, f.start(t))
	require.Equal(t, 1, r.Code, r.Stdout)
	require.Equal(t, 10*len(f.seen), r.Served)
	require.Equal(t, 100-r.Served, r.Lost)
	require.Equal(t, fmt.Sprintf("interrupted; %d of 100 records were not served", r.Lost), r.Problem)
	requireNoRecords(t, redis)
}

var processLine = regexp.MustCompile(`(?m)^process (\d): pid (\d+)$`)

func TestAllProcessesEndWithTheProgram(t *testing.T) {
	t.Parallel()
	programtest.EndsWithItsProcesses(t, 2)
}

// TestTheControlsBreakTheLimit: the load is strong enough for it. The fork sends records again too.
func TestTheControlsBreakTheLimit(t *testing.T) {
	t.Parallel()
	for algorithm, args := range map[string]string{"fork": "-records 20000", "naive": "-records 2000"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			var r ran
			for _, scale := range []int{40, 20, 10, 5} { // a slow machine keeps the limit of a short minute
				if r = runBinary(t.Context(), t, io.Discard, "-algorithm %s %s -scale %d", algorithm, args, scale); r.Code == 0 && !r.OK {
					break
				}
			}
			require.Zero(t, r.Code, r)
			require.False(t, r.OK)
			require.Positive(t, program.Value(r.Over))
			require.Greater(t, program.Value(r.MostSliding), 100.0)
			require.Contains(t, r.Problem, "calls in a minute, the limit is 100")
			require.Zero(t, r.Lost)
			if algorithm == "fork" {
				require.Equal(t, 20_000, r.Served)
				require.Positive(t, program.Value(r.Duplicates))
			} else {
				require.Equal(t, 2000, r.Served+r.Failed)
				require.Positive(t, r.Failed)
			}
		})
	}
}

// TestRedisIsNeededUnlessOneProcessDoesWithout: redis-server is not installed.
func TestRedisIsNeededUnlessOneProcessDoesWithout(t *testing.T) {
	t.Parallel()
	const small = " -options 2 -records 4 -scale 60"
	programtest.WithoutRedisServer(t, map[string]string{
		"-processes 2" + small:                  "redis-server is not installed: install it, or give the -redis HOST:PORT of one that runs",
		"-processes 1 -algorithm fork" + small:  "redis-server is not installed",
		"-processes 1" + small:                  "",
		"-processes 2 -algorithm naive" + small: "",
	})
}
