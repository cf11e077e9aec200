package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/examples/internal/demotest"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
)

func TestVendorWithoutJudge(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"gresil", "naive"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			f := foreign()
			r := demotest.Run(t.Context(), t, "-campaigns 3 -calls 5 -workers 1 -cps 100 -vendor %s -algorithm %s", f.Start(t, pattern), algorithm)
			require.Zero(t, r.Code, r)
			require.False(t, r.Is("judged"))
			require.Equal(t, []int{15}, r.Nums("served"))
			for _, name := range []string{"arrivals", "unique", "duplicates", "most_sliding", "most_fixed", "seconds"} {
				require.NotContains(t, r.Figures, name)
			}
			keys := map[string]bool{}
			seen, _ := f.Seen()
			for _, call := range seen {
				m := regexp.MustCompile(`^(\w{8}-[1-3])/[1-5]$`).FindStringSubmatch(call.Header.Get("Idempotency-Key"))
				require.NotNil(t, m, call.Header)
				require.Equal(t, m[1], call.Header.Get("X-Campaign"))
				require.NotEmpty(t, call.Header.Get("X-Sent"))
				require.True(t, strings.HasPrefix(m[1], r.Text("run")+"-"))
				keys[m[0]] = true
			}
			require.Len(t, keys, 15)
		})
	}
}

func TestOtherAnswersFailCall(t *testing.T) {
	t.Parallel()
	f := foreign()
	f.Call = func(w http.ResponseWriter, r *http.Request, _ int, _ []byte) {
		if strings.HasSuffix(r.Header.Get("Idempotency-Key"), "-1/2") {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
	url := f.Start(t, pattern)
	r := demotest.Run(t.Context(), t, "-campaigns 2 -calls 3 -workers 1 -vendor %s", url)
	require.Equal(t, 1, r.Code, r)
	require.Equal(t, []int{5, 1}, r.Nums("served", "failed"))
	want := "1 of 6 calls were not served; 1 failed, the first: the vendor at " + strings.TrimSuffix(url, "/") + " answers 418 I'm a teapot to a call: must be 204"
	require.Equal(t, want, r.Text("problem"))
}

// A refusal pauses both workers, the call runs again, and no attempt is used. The vendor pardons what arrives within 100 ms and
// a round trip of its refusal.
func TestRefusalsOfVendor(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"429": http.StatusTooManyRequests, "503": http.StatusServiceUnavailable} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const pardon = 200 * time.Millisecond
			quiettest.Repeat(t, func() error {
				var mu sync.Mutex
				var from, until time.Time
				refused, inside := 0, 0
				f := foreign()
				f.Call = func(w http.ResponseWriter, _ *http.Request, n int, _ []byte) {
					mu.Lock()
					defer mu.Unlock()
					now := time.Now()
					if now.Before(until) && now.Sub(from) > pardon {
						inside++
					}
					if n == 20 || n == 60 || n == 100 {
						refused++
						from, until = now, now.Add(time.Second)
						w.Header().Set("Retry-After", "1")
						w.WriteHeader(status)
						return
					}
					w.WriteHeader(http.StatusNoContent)
				}
				r := runBinary(t.Context(), t, io.Discard, "-campaigns 4 -calls 40 -workers 2 -cps 100 -vendor %s", f.Start(t, pattern))
				require.Zero(t, r.Code, r.Stdout)
				require.Equal(t, []int{160, 0, 0}, r.Nums("served", "failed", "retried"))
				require.Equal(t, 3, refused)
				if inside > 0 {
					return fmt.Errorf("%d calls inside pauses", inside)
				}
				return nil
			})
		})
	}
}

func TestUnreachableRedis(t *testing.T) {
	t.Parallel()
	r := demotest.Run(t.Context(), t, "-redis %s", demotest.Unreachable)
	require.Equal(t, 1, r.Code, r)
	require.Contains(t, r.Text("problem"), "redis at "+demotest.Unreachable+": dial tcp")
}

// The vendor ends in the middle of the run: each call fails by itself.
func TestVendorThatEnds(t *testing.T) {
	t.Parallel()
	f := foreign()
	f.Call = func(w http.ResponseWriter, _ *http.Request, n int, _ []byte) {
		if n > 2 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusNoContent)
	}
	r := demotest.Run(t.Context(), t, "-campaigns 2 -calls 3 -workers 1 -vendor %s", f.Start(t, pattern))
	require.Equal(t, 1, r.Code, r)
	require.Equal(t, []int{2, 4, 0}, r.Nums("served", "failed", "lost"))
}

// A call that is sent is finished, and one that waits is dropped.
func TestWorkerEndsWithInput(t *testing.T) {
	t.Parallel()
	f := foreign()
	told := `{"Run":"r","Vendor":"` + strings.TrimSuffix(f.Start(t, pattern), "/") + `","Algorithm":"gresil","Campaigns":2,"Workers":1,"CPS":1}`
	in, out := io.Pipe()
	lines, stdout := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		var stderr bytes.Buffer
		ended <- command().RunWorker(told, in, stdout, &stderr)
		_ = stdout.Close()
	}()
	scanner := bufio.NewScanner(lines)
	next := func() string {
		for scanner.Scan() {
			if word, _, _ := strings.Cut(scanner.Text(), " "); !slices.Contains([]string{"stall", "passed"}, word) {
				return scanner.Text()
			}
		}
		return ""
	}
	require.Equal(t, "ready 0", next())
	_, err := io.WriteString(out, "[3,4]\n")
	require.NoError(t, err)
	first := strings.Fields(next())[1]
	line := next()
	for line == "sent "+first || line == "run "+first+" 1" { // its slot was stale before it was sent
		line = next()
	}
	require.Equal(t, "done "+first, line)
	require.NoError(t, out.Close()) // the other one waits for a second
	key, other := map[string]string{"3": "r-2/2", "4": "r-1/3"}[first], map[string]string{"3": "4", "4": "3"}[first]
	require.Contains(t, []string{"run " + other + " 1", ""}, next())
	require.Empty(t, next())
	require.Zero(t, <-ended)
	seen, _ := f.Seen()
	require.Len(t, seen, 1)
	require.Equal(t, key, seen[0].Header.Get("Idempotency-Key"))
}

// The vendor answers late, so that there are some. No other call arrives twice, and none is lost.
func TestCallsInFlightAtKill(t *testing.T) {
	t.Parallel()
	f := foreign()
	f.Call = func(w http.ResponseWriter, _ *http.Request, _ int, _ []byte) {
		time.Sleep(100 * time.Millisecond) // the latency
		w.WriteHeader(http.StatusNoContent)
	}
	r := runBinary(t.Context(), t, io.Discard, "-campaigns 4 -calls 60 -workers 2 -cps 150 -kill 2 -vendor %s", f.Start(t, pattern))
	require.Zero(t, r.Code, r.Stdout)
	require.Equal(t, []int{2, 240}, r.Nums("deaths", "served"))
	times, ended := map[string]int{}, map[string]int{}
	for _, key := range inFlight(r) {
		ended[key]++
	}
	require.NotEmpty(t, ended)
	seen, _ := f.Seen()
	for _, call := range seen {
		times[call.Header.Get("Idempotency-Key")]++
	}
	require.Len(t, times, 240)
	for key, n := range times {
		require.LessOrEqual(t, n, 1+ended[key], key)
	}
}

// A worker that was killed has left a job that is active: the queue is removed nevertheless.
func TestQueueOfRunIsRemoved(t *testing.T) {
	t.Parallel()
	server, err := redisserver.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(server.Kill)
	c := newTask(config{Campaigns: 1, Calls: 3, Workers: 1, CPS: 1, Engine: "asynq"}, &demo.Screen{Writer: io.Discard})
	c.Run = "r"
	ctx, client := t.Context(), redis.NewClient(&redis.Options{Addr: server.Addr})
	defer func() { _ = client.Close() }()
	engine, err := asynqjobs.New(client, asynqjobs.Config{})
	require.NoError(t, err)
	runner, err := jobs.New(jobs.Config{Engine: engine})
	require.NoError(t, err)
	for n := range 3 {
		_, err := runner.Enqueue(ctx, c.job(n))
		require.NoError(t, err)
	}
	require.NoError(t, client.LMove(ctx, "asynq:{campaigns:r}:pending", "asynq:{campaigns:r}:active", "RIGHT", "LEFT").Err())
	require.NoError(t, client.ZAdd(ctx, "asynq:{campaigns:r}:lease", redis.Z{Score: 1, Member: c.key(0)}).Err())
	require.NoError(t, client.Set(ctx, "asynq:{campaigns:r}:processed", 1, 0).Err())
	require.NoError(t, client.Set(ctx, "asynq:{campaigns:rr}:processed", 1, 0).Err()) // of another run
	c.forget(ctx, client)
	keys, err := client.Keys(ctx, "asynq:*").Result()
	require.NoError(t, err)
	require.Equal(t, []string{"asynq:{campaigns:rr}:processed"}, keys)
}
