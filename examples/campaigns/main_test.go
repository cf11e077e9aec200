package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"strconv"
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

// A result is a run of the program.
type result struct {
	summary
	programtest.Output
}

// runJSON runs the program with -json, in this process and its children.
func runJSON(ctx context.Context, t *testing.T, format string, args ...any) (r result) {
	t.Helper()
	r.figures = &figures{}
	r.Output = programtest.Run(ctx, t, command(), &r.summary, fmt.Sprintf(format, args...))
	return r
}

// runBinary is the same as a process of its own. It is interrupted when ctx ends.
func runBinary(ctx context.Context, t *testing.T, stderr io.Writer, format string, args ...any) (r result) {
	t.Helper()
	r.figures = &figures{}
	r.Output = programtest.RunBinary(ctx, t, stderr, &r.summary, fmt.Sprintf(format, args...))
	return r
}

// repeated repeats a test with a lower limit if the machine stalled, and the run is void for that.
func repeated(t *testing.T, cps int, test func(cps int) result) (r result) {
	t.Helper()
	for range 3 {
		if r = test(cps); r.Code != 3 {
			return r
		}
		t.Log("repeated: ", r.Stdout)
		cps = cps * 2 / 3
	}
	t.Fatal("the machine stalled each time")
	return r
}

// requireServed checks that all calls were served within the limit. How long they took is judged by the soak.
func requireServed(t *testing.T, r result) {
	t.Helper()
	require.Zero(t, r.Code, r.Stdout)
	require.True(t, r.OK)
	require.Equal(t, r.Campaigns*r.Calls, r.Served+r.Lost)
	require.LessOrEqual(t, program.Value(r.MostFixed), float64(r.CPS))
	require.LessOrEqual(t, program.Value(r.MostSliding), float64(r.CPS))
}

// requireOnce checks the arrivals of runs with a vendor of their own: none is lost but those that were
// in flight at the death of a worker, and no other one has arrived twice.
func requireOnce(t *testing.T, v verdict, runs ...result) {
	t.Helper()
	total, inFlight, lost := 0, 0, 0
	for _, r := range runs {
		total, inFlight, lost = total+r.Campaigns*r.Calls, inFlight+len(r.InFlight), lost+r.Lost
	}
	require.LessOrEqual(t, v.Unique, total)
	require.GreaterOrEqual(t, v.Unique, total-lost)
	require.LessOrEqual(t, v.Duplicates, inFlight)
}

func (f *figures) verdict() verdict {
	return verdict{Arrivals: int(program.Value(f.Arrivals)), Unique: int(program.Value(f.Unique)), Duplicates: int(program.Value(f.Duplicates))}
}

// TestCampaignsWithAKill: 20 campaigns of 1,000 calls from 4 processes, one of which is killed on the way.
func TestCampaignsWithAKill(t *testing.T) {
	t.Parallel()
	r := repeated(t, 1500, func(cps int) result {
		return runBinary(t.Context(), t, io.Discard, "-cps %d -kill 1", cps)
	})
	requireServed(t, r)
	require.Equal(t, 1, r.Deaths)
	requireOnce(t, r.verdict(), r)
	require.Greater(t, r.WorstHalf, 0.35)
	require.Less(t, r.BestHalf, 0.65)
	require.InDelta(t, 1, r.Checks, 0.2)
	require.Positive(t, r.RedisCPU)
}

// TestCampaignsOnAsynq: each handler runs once, no job is retried, and the queue is removed.
func TestCampaignsOnAsynq(t *testing.T) {
	t.Parallel()
	redis, err := redisserver.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(redis.Kill)
	r := repeated(t, 300, func(cps int) result {
		return runBinary(t.Context(), t, io.Discard, "-calls 40 -workers 2 -cps %d -engine asynq -redis %s", cps, redis.Addr)
	})
	requireServed(t, r)
	require.Equal(t, "asynq", r.Engine)
	require.InDelta(t, 1, r.Runs, 0)
	require.Zero(t, r.Retried)
	requireOnce(t, r.verdict(), r)
	queues, err := redis.Do("smembers asynq:queues")
	require.NoError(t, err)
	require.Empty(t, queues)
}

// TestTheControlsAreAboveTheLimit: the load is strong enough to break it.
func TestTheControlsAreAboveTheLimit(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"article", "naive"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			for cps := 300; ; cps /= 2 { // a machine with other work may be too slow to break a higher limit
				url := programtest.StartVendor(t)
				limited, cancel := context.WithTimeout(programtest.Until(t, url, func(f *figures) bool { // the article's takes two minutes
					return algorithm == "article" && program.Value(f.MostSliding) > float64(cps)
				}), 30*time.Second)
				r := runBinary(limited, t, io.Discard, "-calls 100 -cps %d -algorithm %s -vendor %s", cps, algorithm, url)
				cancel()
				if program.Value(r.MostSliding) <= float64(cps) && cps > 50 {
					continue
				}
				require.Zero(t, r.Code, r)
				require.False(t, r.OK)
				require.Greater(t, program.Value(r.MostSliding), float64(cps))
				require.Contains(t, r.Problem, fmt.Sprintf("calls in a second, the limit is %d", cps))
				return
			}
		})
	}
}

// TestTwoRunsShareTheLimit: they have one Redis and one vendor.
func TestTwoRunsShareTheLimit(t *testing.T) {
	t.Parallel()
	redis, err := redisserver.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(redis.Kill)
	const total = 2 * 20 * 70
	repeated(t, 400, func(cps int) result {
		url := programtest.StartVendor(t)
		var runs [2]result
		var wg sync.WaitGroup
		for i := range runs {
			wg.Go(func() {
				runs[i] = runBinary(t.Context(), t, io.Discard, "-calls 70 -workers 2 -cps %d -redis %s -vendor %s", cps, redis.Addr, url)
			})
		}
		wg.Wait()
		for _, r := range runs {
			if r.Code == 3 {
				return r
			}
			require.Zero(t, r.Code, r.Stdout)
		}
		v, err := program.Judge[figures](t.Context(), url)
		require.NoError(t, err)
		require.InDelta(t, total, program.Value(v.Unique), 0)
		require.InDelta(t, total, program.Value(v.Arrivals), 0)
		require.LessOrEqual(t, program.Value(v.MostSliding), float64(cps))
		require.LessOrEqual(t, program.Value(v.MostFixed), float64(cps))
		return runs[0]
	})
}

// pids reads the standard error of the program: it has the workers that have not ended.
type pids struct {
	mu    sync.Mutex
	alive map[int]int // by number
}

var workerLine = regexp.MustCompile(`(?m)^worker (\d+)(?:: pid (\d+)| has ended)$`)

func (p *pids) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range workerLine.FindAllSubmatch(text, -1) {
		number := core.Must(strconv.Atoi(string(m[1])))
		delete(p.alive, number)
		if len(m[2]) > 0 {
			p.alive[number] = core.Must(strconv.Atoi(string(m[2])))
		}
	}
	return len(text), nil
}

func (p *pids) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.alive)
}

// any returns one of the workers, or 0.
func (p *pids) any() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pid := range p.alive {
		return pid
	}
	return 0
}

// TestWorkersThatStopAndStartAtRandom: workers stand still for a while, or end and are replaced.
func TestWorkersThatStopAndStartAtRandom(t *testing.T) {
	t.Parallel()
	r := repeated(t, 400, func(cps int) result {
		p := &pids{alive: map[int]int{}}
		ctx, cancel := context.WithCancel(t.Context())
		var disturber sync.WaitGroup
		disturber.Go(func() {
			for i := 1; ctx.Err() == nil; i++ {
				_ = sleep(ctx.Done(), time.Duration(200+rand.IntN(400))*time.Millisecond)
				pid := p.any()
				switch {
				case pid == 0:
				case i%4 == 0:
					_ = syscall.Kill(pid, syscall.SIGKILL)
				default:
					_ = syscall.Kill(pid, syscall.SIGSTOP)
					_ = sleep(ctx.Done(), time.Duration(50+rand.IntN(400))*time.Millisecond)
					_ = syscall.Kill(pid, syscall.SIGCONT)
				}
			}
		})
		r := runBinary(t.Context(), t, p, "-calls 200 -cps %d", cps)
		cancel()
		disturber.Wait()
		return r
	})
	requireServed(t, r)
	require.Positive(t, r.Deaths)
	require.Greater(t, r.Stall, 50.0)
	requireOnce(t, r.verdict(), r)
}

// TestOneWorkerNeedsNoRedis: the limit is in memory.
func TestOneWorkerNeedsNoRedis(t *testing.T) {
	t.Parallel()
	r := repeated(t, 200, func(cps int) result {
		return runBinary(t.Context(), t, io.Discard, "-campaigns 3 -calls 100 -workers 1 -cps %d", cps)
	})
	requireServed(t, r)
	require.Zero(t, r.RedisCPU)
	require.InDelta(t, 1, r.Checks, 0.2)
}

func TestAnInterruptEndsAllProcesses(t *testing.T) {
	t.Parallel()
	url := programtest.StartVendor(t)
	p := &pids{alive: map[int]int{}}
	ctx := programtest.Until(t, url, func(f *figures) bool { return p.count() == 4 && program.Value(f.Arrivals) > 0 })
	r := runBinary(ctx, t, p, "-cps 100 -vendor %s", url)
	require.Equal(t, 1, r.Code, r)
	require.Contains(t, r.Problem, "interrupted; ")
	require.True(t, r.Judged)
	require.Equal(t, strconv.Itoa(r.Served), r.Arrivals.String(), "calls in flight are waited for")
	require.Positive(t, r.Served)
	require.Len(t, p.alive, 4)
	for _, pid := range p.alive {
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	}
}

func TestAllProcessesEndWithTheProgram(t *testing.T) {
	t.Parallel()
	programtest.EndsWithItsProcesses(t, 4, "-cps", "100")
}
