package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/examples/internal/demotest"
	"github.com/gresil/gresil/internal/redisserver"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	demotest.WrongCommandLines(t, command(), map[string]string{
		"extra":                       `grouped-calls: unexpected argument "extra": there are only flags`,
		"-records 0":                  `invalid value "0" for flag -records: must be a whole number, 1 to 10000000`,
		"-records 7":                  "grouped-calls: -records 7 -options 8: each option must have a record",
		"-options 1.5":                `invalid value "1.5" for flag -options: must be a whole number, 1 to 10000`,
		"-max-records 10001":          `invalid value "10001" for flag -max-records: must be a whole number, 1 to 10000`,
		"-calls-per-minute none":      `invalid value "none" for flag -calls-per-minute: must be a whole number, 1 to 1000000`,
		"-processes 65":               `invalid value "65" for flag -processes: must be a whole number, 1 to 64`,
		"-scale 0":                    `invalid value "0" for flag -scale: must be a number, 0.1 to 600`,
		"vendor extra":                `grouped-calls vendor: unexpected argument "extra": there are only flags`,
		"vendor -scale Inf":           `invalid value "Inf" for flag -scale: must be a number, 0.1 to 600`,
		"vendor -max-records 0":       `invalid value "0" for flag -max-records: must be a whole number, 1 to 10000`,
		"vendor -calls-per-minute -1": `invalid value "-1" for flag -calls-per-minute: must be a whole number, 1 to 1000000`,
	})
}

func TestIdealCalls(t *testing.T) {
	t.Parallel()
	c := config{Records: 602, terms: terms{Options: 3, MaxRecords: 200, CallsPerMinute: 100, Scale: 60}}
	calls, d := c.ideal()
	require.Equal(t, 2+2+1, calls, "of 201, 201 and 200 records")
	require.Equal(t, 50*time.Millisecond, d)
	for processes, want := range map[int]bool{1: false, 2: true} {
		c.Processes, c.Algorithm = processes, "gresil"
		require.Equal(t, want, c.needsRedis())
		c.Algorithm = demo.Control
		require.False(t, c.needsRedis())
	}
}

func TestSlackOfShortMinute(t *testing.T) {
	t.Parallel()
	for scale, want := range map[float64]time.Duration{1: 600 * time.Millisecond, 60: 50 * time.Millisecond, 600: 5 * time.Millisecond} {
		require.Equal(t, want, slack((&terms{Scale: scale}).minute()), scale)
	}
}

// repeated repeats a test with a longer minute if the run is void, since the machine stalled.
func repeated(t *testing.T, scale float64, test func(scale float64) demotest.Output) demotest.Output {
	t.Helper()
	return demotest.Repeat(t, scale, 0.5, test)
}

// requireGrouped checks that all records were served once, by the smallest number of calls of each option, within the limit.
// How long they took is judged by the soak.
func requireGrouped(t *testing.T, r demotest.Output) {
	t.Helper()
	require.Zero(t, r.Code, r.Stdout)
	require.True(t, r.Is("ok"))
	require.True(t, r.Is("judged"))
	records, calls := int(r.Num("records")), int(r.Num("ideal_calls"))
	require.Equal(t, []int{records, records, records}, r.Nums("served", "accepted", "unique"))
	require.Equal(t, []int{calls, calls}, r.Nums("calls", "arrivals"))
	require.Equal(t, []int{0, 0, 0, 0}, r.Nums("over", "too_big", "bad", "duplicates"))
	require.LessOrEqual(t, r.Num("most_sliding"), r.Num("calls_per_minute"))
	require.LessOrEqual(t, r.Num("most_fixed"), r.Num("calls_per_minute"))
	var byOption map[string]int // no option needs less than its part, and their sum is the smallest
	require.NoError(t, json.Unmarshal(r.Figures["calls_by_option"], &byOption))
	require.Len(t, byOption, int(r.Num("options")))
}

func TestGroupedCalls(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]string{
		"two processes":         "-records 5000 -options 8 -max-records 50 -calls-per-minute 100 -processes 2",
		"one process in memory": "-records 7500 -options 3 -max-records 50 -processes 1",
		"many small options":    "-records 1111 -options 150 -max-records 5 -calls-per-minute 250 -processes 3", // none waits for a full call
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireGrouped(t, repeated(t, 60, func(scale float64) demotest.Output {
				return demotest.RunBinary(t.Context(), t, io.Discard, "%s -scale %g", args, scale)
			}))
		})
	}
}

// They have one Redis and one vendor, and records of their own.
func TestTwoRunsShareLimit(t *testing.T) {
	t.Parallel()
	server, err := redisserver.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(server.Kill)
	repeated(t, 50, func(scale float64) demotest.Output {
		srv := httptest.NewServer(newVendor(t.Context(), terms{MaxRecords: 200, CallsPerMinute: 100, Scale: scale}))
		t.Cleanup(srv.Close)
		var runs [2]demotest.Output
		var wg sync.WaitGroup
		for i := range runs {
			wg.Go(func() {
				const args = "-records 2000 -max-records 25 -scale %g -redis %s -vendor %s"
				runs[i] = demotest.RunBinary(t.Context(), t, io.Discard, args, scale, server.Addr, srv.URL)
			})
		}
		wg.Wait()
		for _, r := range runs {
			if r.Code == 3 {
				return r
			}
			require.Zero(t, r.Code, r.Stdout)
			require.Equal(t, []int{80}, r.Nums("calls"), "each run is below the limit")
		}
		f, err := demo.Judge(t.Context(), srv.URL)
		require.NoError(t, err)
		require.Equal(t, []int{4000, 160}, demotest.Output{Figures: f}.Nums("unique", "arrivals"))
		require.LessOrEqual(t, f.Num("most_sliding"), 100.0)
		requireNoRecords(t, server)
		return runs[0]
	})
}

// requireNoRecords checks that each key of the groups which is left expires.
func requireNoRecords(t *testing.T, server *redisserver.Server) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer func() { require.NoError(t, rdb.Close()) }()
	keys, err := rdb.Keys(t.Context(), "gresil:groups:*").Result()
	require.NoError(t, err)
	left, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.TTL(t.Context(), key)
		}
		return nil
	})
	require.NoError(t, err)
	for i, ttl := range left {
		require.Greater(t, ttl.(*redis.DurationCmd).Val(), time.Duration(0), keys[i])
	}
}

var processLine = regexp.MustCompile(`(?m)^process (\d): pid (\d+)$`)

type writerFunc func(text []byte) (int, error)

func (f writerFunc) Write(text []byte) (int, error) { return f(text) }

// A process that is killed has calls in flight, whose records arrive again with the same key, in the same calls. No call is
// answered from the tenth on until more are in flight than the other process makes at a time.
func TestProcessIsKilled(t *testing.T) {
	t.Parallel()
	killed, over := make(chan int, 1), make(chan struct{})
	var once sync.Once
	f := &demotest.Foreign{Call: func(w http.ResponseWriter, _ *http.Request, n int, body []byte) {
		if n >= 10+concurrency+3 {
			once.Do(func() {
				_ = syscall.Kill(<-killed, syscall.SIGKILL)
				close(over)
			})
		}
		if n >= 10 {
			<-over
		}
		accept(w, body)
	}}
	pids := writerFunc(func(text []byte) (int, error) {
		if m := processLine.FindSubmatch(text); m != nil && string(m[1]) == "1" {
			killed <- core.Must(strconv.Atoi(string(m[2])))
		}
		return len(text), nil
	})
	r := demotest.RunBinary(t.Context(), t, pids, "-options 4 -records 1000 -max-records 10 -scale 60 -vendor %s", f.Start(t, pattern))
	require.Zero(t, r.Code, r.Stdout)
	require.Equal(t, []int{1, 1000}, r.Nums("deaths", "served"))
	calls, numbers := map[string]string{}, map[float64]int{}
	seen, bodies := f.Seen()
	for i, s := range seen {
		key := s.Header.Get("Idempotency-Key")
		if before, again := calls[key]; again {
			require.Equal(t, before, string(bodies[i]))
			continue
		}
		calls[key] = string(bodies[i])
		for _, record := range parsed(bodies[i]).Records {
			numbers[record["number"].(float64)]++
		}
	}
	require.Len(t, calls, 100)
	require.Len(t, numbers, 1000)
	for n, times := range numbers {
		require.Equal(t, 1, times, n)
	}
	require.Greater(t, len(seen), 100, "calls were in flight")
}

func TestControlBreaksLimit(t *testing.T) {
	t.Parallel()
	var r demotest.Output
	for _, scale := range []int{40, 20, 10, 5} { // a slow machine keeps the limit of a short minute
		r = demotest.RunBinary(t.Context(), t, io.Discard, "-algorithm naive -records 2000 -scale %d", scale)
		if r.Code == 0 && !r.Is("ok") {
			break
		}
	}
	require.Zero(t, r.Code, r)
	require.False(t, r.Is("ok"))
	require.Positive(t, r.Num("over"))
	require.Greater(t, r.Num("most_sliding"), 100.0)
	require.Contains(t, r.Text("problem"), "calls in a minute, the limit is 100")
	require.Positive(t, r.Num("failed"))
	require.InDelta(t, 2000, r.Num("served")+r.Num("failed"), 0)
}
