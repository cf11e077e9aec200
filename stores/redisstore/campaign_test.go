package redisstore

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/internal/redistest"
)

// callerVar is the variable of the environment that makes the test binary a campaigner.
const callerVar = "GRESIL_TEST_CALLER"

// TestMain lets a test start processes, which are this program. The tests stop servers: go-redis would
// log each connection that fails.
func TestMain(m *testing.M) {
	logging.Disable()
	redistest.Main(callerVar, func(told string) error { return callerMain(told, os.Stdout) })
	flag.Parse()
	if set := flag.Lookup("test.parallel"); set.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = set.Value.Set("8") // the tests wait more than they compute
	}
	os.Exit(m.Run())
}

// Campaigns make calls from several processes at once. Those of an even number are held to an aligned
// second, the others to a bucket.
const (
	campaigns = 20
	processes = 4
)

// A campaigner is a process that makes its share of the calls of all campaigns.
type campaigner struct {
	Addr    string
	Mode    Mode
	Process int
	Calls   int // of each campaign
	Rate    int64
}

func (c campaigner) limit(campaign int) ratelimit.Limit {
	if campaign%2 == 0 {
		return ratelimit.AlignedWindow(c.Rate, time.Second)
	}
	return ratelimit.TokenBucket(c.Rate, time.Second, c.Rate/10)
}

// workers wait at a time, for each campaign: all processes together for more than a window, so that none
// stays empty, but not for three, which is as far ahead as can be reserved.
func (c campaigner) workers(campaign int) int {
	if campaign%2 == 0 {
		return int(c.Rate/processes + c.Rate/20)
	}
	return int(c.Rate / 40)
}

func callerMain(told string, w io.Writer) error {
	var c campaigner
	if err := json.Unmarshal([]byte(told), &c); err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: c.Addr, PoolTimeout: time.Minute, ReadTimeout: time.Minute})
	defer func() { _ = client.Close() }()
	store, err := New(client, Config{Mode: c.Mode, Timeout: time.Minute})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		errs []error
		out  = bufio.NewWriter(w)
	)
	for k := range campaigns {
		l, err := ratelimit.New(ratelimit.Config{Name: "campaigns", Limit: c.limit(k), MaxWait: -1, Store: store, OnStoreError: ratelimit.Deny})
		if err != nil {
			return err
		}
		queue := make(chan int, c.Calls)
		for i := range c.Calls {
			queue <- c.Process*c.Calls + i
		}
		close(queue)
		for range c.workers(k) {
			all.Go(func() {
				for i := range queue {
					r, err := l.Reserve(context.Background(), strconv.Itoa(k), 1, -1)
					time.Sleep(r.Wait)
					if err == nil && !r.Allowed {
						err = core.ErrRejected
					}
					mu.Lock()
					errs = append(errs, err, write(out, made{uint32(k), uint32(i), r.Receipt.At + r.Wait.Microseconds()}))
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	return errors.Join(append(errs, out.Flush())...)
}

// A made call was granted at a time of the server, in µs.
type made struct {
	Campaign, Call uint32
	At             int64
}

func write(w io.Writer, m made) error { return binary.Write(w, binary.BigEndian, m) }

// runCampaigns has all processes make so many calls together, and returns them.
func runCampaigns(t *testing.T, mode Mode, calls int, rate int64) []made {
	t.Helper()
	addr := startServer(t).Addr
	var all sync.WaitGroup
	var outs [processes]bytes.Buffer
	var fails [processes]error
	for p := range processes {
		all.Go(func() {
			told, err := json.Marshal(campaigner{Addr: addr, Mode: mode, Process: p, Calls: calls / campaigns / processes, Rate: rate})
			if err != nil {
				fails[p] = err
				return
			}
			var errs bytes.Buffer
			cmd := redistest.Process(t.Context(), callerVar, string(told))
			cmd.Stdout, cmd.Stderr = &outs[p], &errs
			if err := cmd.Run(); err != nil {
				fails[p] = fmt.Errorf("%w: %s", err, errs.String())
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(fails[:]...))
	var result []made
	for p := range processes {
		got := make([]made, outs[p].Len()/binary.Size(made{}))
		require.NoError(t, binary.Read(&outs[p], binary.BigEndian, got))
		result = append(result, got...)
	}
	return result
}

// judge tells what is wrong: each campaign has so many calls, each made once, in no second of the server
// more than the rate, or, of a bucket, in no time t more than burst + rate·t.
func judge(all []made, calls int, rate int64) error {
	const second = 1_000_000
	var by [campaigns][]made
	for _, m := range all {
		by[m.Campaign] = append(by[m.Campaign], m)
	}
	for k, all := range by {
		slices.SortFunc(all, func(a, b made) int { return cmp.Compare(a.At, b.At) })
		seen := make(map[uint32]bool, len(all))
		used := map[int64]int64{}
		debt, last := int64(0), int64(0) // a call is a million units, of which a µs brings back rate
		for _, m := range all {
			if seen[m.Call] = true; k%2 == 0 {
				if used[m.At/second]++; used[m.At/second] > rate {
					return fmt.Errorf("campaign %d: more than %d calls in second %d", k, rate, m.At/second)
				}
				continue
			}
			debt, last = max(0, debt-rate*(m.At-last))+second, m.At
			if debt > rate/10*second+rate { // a time is rounded up to a µs
				return fmt.Errorf("campaign %d: more than burst + rate·t calls at %d µs", k, m.At)
			}
		}
		if len(all) != calls || len(seen) != calls {
			return fmt.Errorf("campaign %d: %d calls were made, %d different ones, of %d", k, len(all), len(seen), calls)
		}
	}
	return nil
}

// TestCampaignsOfFourProcesses: no limit of any is passed, in no second, and no call is lost or made twice.
// `make soak` asks for two million.
func TestCampaignsOfFourProcesses(t *testing.T) { //nolint:paralleltest // other tests have times to keep
	checkCampaigns(t, Coalesced, 12_000, 400)
}

func checkCampaigns(t *testing.T, mode Mode, calls int, rate int64) {
	t.Helper()
	start := time.Now()
	all := runCampaigns(t, mode, calls, rate)
	t.Logf("%d calls, %v: %v", len(all), mode, time.Since(start))
	require.NoError(t, judge(all, calls/campaigns, rate))
}

// TestTheJudgeOfCampaigns: calls under one limiter for four processes pass, and those of four limiters, or
// with a call too few or too many, do not.
func TestTheJudgeOfCampaigns(t *testing.T) {
	t.Parallel()
	const calls, rate = 100, 20
	run := func(limiters int) (all []made) {
		synctest.Test(t, func(t *testing.T) {
			t.Helper()
			var mu sync.Mutex
			var done sync.WaitGroup
			var tables []ratelimit.Store
			for range limiters {
				tables = append(tables, &ratelimittest.Memory{})
			}
			for k := range campaigns {
				for p := range processes {
					l, err := ratelimit.New(ratelimit.Config{Name: "campaigns", Limit: campaigner{Rate: rate}.limit(k), Store: tables[p%limiters], MaxWait: -1})
					require.NoError(t, err)
					for i := range calls / processes {
						done.Go(func() {
							_, err := l.Wait(context.Background(), strconv.Itoa(k), 1)
							if err != nil {
								t.Error(err)
							}
							mu.Lock()
							defer mu.Unlock()
							all = append(all, made{uint32(k), uint32(p*calls/processes + i), time.Now().UnixMicro()})
						})
					}
				}
			}
			done.Wait()
		})
		return all
	}
	right := run(1)
	require.NoError(t, judge(right, calls, rate))
	require.ErrorContains(t, judge(run(processes), calls, rate), "more than")
	require.ErrorContains(t, judge(right[1:], calls, rate), "of 100")
	twice := slices.Clone(right)
	other := slices.IndexFunc(twice[1:], func(m made) bool { return m.Campaign == twice[0].Campaign })
	twice[0].Call = twice[1+other].Call
	require.ErrorContains(t, judge(twice, calls, rate), "99 different ones")
}
