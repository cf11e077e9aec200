package pace_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/pace"
	"github.com/gresil/gresil/stores/redisstore"
	"github.com/gresil/gresil/stores/share"
)

// workerVar is the variable of the environment that makes the test binary a worker.
const workerVar = "GRESIL_TEST_PACE_WORKER"

func TestMain(m *testing.M) {
	logging.Disable() // go-redis would log each connection that fails
	redistest.Main(workerVar, work)
	os.Exit(m.Run())
}

// A worker is a process that takes permits.
type worker struct {
	Addr       string
	Calls      int64
	Goroutines int
	Rate       int64
	Reserve    bool // and do not wait; otherwise call when the permit says so
}

// A mark is a slot on the clock of Redis, in µs, or the time of a call, in ns. Late is true if the slot began
// with its reservation, or if the worker itself stood still between the check of the shelf life and the call.
type mark struct {
	At   int64
	Late bool
}

func work(told string) error {
	var w worker
	if err := json.Unmarshal([]byte(told), &w); err != nil {
		return err
	}
	var mu sync.Mutex
	out := bufio.NewWriter(os.Stdout)
	write := func(m mark) {
		mu.Lock()
		defer mu.Unlock()
		_ = binary.Write(out, binary.BigEndian, m) // the parent counts
	}
	store, err := redisstore.New(redis.NewClient(&redis.Options{Addr: w.Addr, PoolTimeout: time.Minute, ReadTimeout: time.Minute}), redisstore.Config{Mode: redisstore.Coalesced, Timeout: time.Minute})
	if err != nil {
		return err
	}
	cfg := pace.Config{Name: "vendor", Rates: perSecond(w.Rate), Store: store}
	if w.Reserve {
		cfg.Store, cfg.Slack = &recording{store, write}, 9*time.Second // no reply of a busy machine takes so long
		cfg.Rates = []pace.Rate{{Calls: 10 * w.Rate, Per: 10 * time.Second}}
	}
	p, err := pace.New(cfg)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "ready")
	var left atomic.Int64
	left.Store(w.Calls)
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range w.Goroutines {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				take := p.Wait
				if w.Reserve {
					take = p.Reserve
				}
				permit, err := take(context.Background(), "k", 1)
				if now := time.Now(); err == nil && !w.Reserve {
					write(mark{now.UnixNano(), now.After(permit.NotAfter)})
				}
				if err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	fmt.Fprintf(os.Stderr, "stale %d lost %d\n", p.Stats().Stale, p.Stats().Lost)
	if err := failed.Load(); err != nil {
		return *err
	}
	return errors.Join(out.Flush(), p.Close(), store.Close())
}

// A recording store writes the slots of all reservations.
type recording struct {
	ratelimit.Store
	write func(mark)
}

func (s *recording) Open(name string) (limits.Table, error) {
	t, err := s.Store.Open(name)
	return &recordingTable{t, s}, err
}

type recordingTable struct {
	limits.Table
	s *recording
}

func (t *recordingTable) Apply(ctx context.Context, key string, plan *limits.Plan, op limits.Op) (limits.Result, error) {
	r, err := t.Table.Apply(ctx, key, plan, op)
	if err == nil && op.Kind == limits.Reserve && r.Allowed {
		t.s.write(mark{r.Receipt.At + r.Wait.Microseconds(), r.Wait == 0})
	}
	return r, err
}

// start runs a worker. The result waits for its end.
func start(t *testing.T, w worker) (cmd *exec.Cmd, marks func() (all []mark, said string)) {
	t.Helper()
	told := core.Must(json.Marshal(w))
	var out, said bytes.Buffer
	cmd = redistest.Process(t.Context(), workerVar, string(told))
	cmd.Stdout, cmd.Stderr = &out, &said
	require.NoError(t, cmd.Start())
	return cmd, func() ([]mark, string) {
		t.Helper()
		if err := cmd.Wait(); !tooSlow(said.String()) {
			require.NoError(t, err, said.String())
		}
		all := make([]mark, out.Len()/binary.Size(mark{}))
		require.NoError(t, binary.Read(&out, binary.BigEndian, all))
		return all, said.String()
	}
}

// tooSlow reports whether a worker ended since the replies of Redis took longer than its Slack, as on a
// machine with other work.
func tooSlow(said string) bool { return strings.Contains(said, "longer than Slack") }

// TestSlotsOfFourProcessesAreSpaced: 4 x 250 goroutines reserve; each slot is one interval after the one
// before, and none is lost.
func TestSlotsOfFourProcessesAreSpaced(t *testing.T) {
	t.Parallel()
	checkSpacing(t, 10_000)
}

func checkSpacing(t *testing.T, calls int) {
	t.Helper()
	const rate = 1000
	const interval = (1_000_000 + 900_000) / rate // µs, with a Slack of 0.9 of the period
	addr := redistest.Start(t).Addr
	var ends []func() ([]mark, string)
	for range 4 {
		_, end := start(t, worker{Addr: addr, Calls: int64(calls) / 4, Goroutines: 250, Rate: rate, Reserve: true})
		ends = append(ends, end)
	}
	var slots []mark
	for _, end := range ends {
		all, said := end()
		require.Contains(t, said, "stale 0 lost 0")
		slots = append(slots, all...)
	}
	slices.SortFunc(slots, func(a, b mark) int { return cmp.Compare(a.At, b.At) })
	require.Len(t, slots, calls)
	for i := 1; i < len(slots); i++ {
		require.GreaterOrEqual(t, slots[i].At-slots[i-1].At, int64(interval-1), i)
		require.True(t, slots[i].Late || slots[i].At-slots[i-1].At <= interval+1, "%d: no slot is lost, except when no call came", i)
	}
}

// mostIn returns the number of calls in the fullest half-open window.
func mostIn(calls []int64, per time.Duration) (most int) {
	slices.Sort(calls)
	first := 0
	for i, at := range calls {
		for at-calls[first] >= int64(per) {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// undisturbed repeats a test that the machine disturbed: a goroutine stood still for longer than Slack
// between its check and its call, so that the vendor's count means nothing.
func undisturbed(t *testing.T, test func() (disturbed bool)) {
	t.Helper()
	for range 15 {
		if !test() {
			return
		}
	}
	t.Fatal("the machine stalled in each attempt")
}

// TestAProcessThatIsStoppedSendsNothingStale: SIGSTOP for 200 ms, at random. The stale permits are given
// up, and no call is lost.
func TestAProcessThatIsStoppedSendsNothingStale(t *testing.T) {
	t.Parallel()
	checkStops(t, 800, 6)
}

func checkStops(t *testing.T, calls, stops int) {
	t.Helper()
	const rate = 400
	undisturbed(t, func() (disturbed bool) {
		addr := redistest.Start(t).Addr
		stopped, end := start(t, worker{Addr: addr, Calls: int64(calls) / 2, Goroutines: 50, Rate: rate})
		_, other := start(t, worker{Addr: addr, Calls: int64(calls) / 2, Goroutines: 50, Rate: rate})
		time.Sleep(200 * time.Millisecond) // it begins
		for range stops {
			time.Sleep(time.Duration(rand.Int64N(int64(50 * time.Millisecond)))) // a stop can come at any moment of a call
			require.NoError(t, stopped.Process.Signal(syscall.SIGSTOP))
			time.Sleep(200 * time.Millisecond) // the length of a stop
			require.NoError(t, stopped.Process.Signal(syscall.SIGCONT))
		}
		all, said := end()
		others, saidOther := other()
		if tooSlow(said + saidOther) {
			return true
		}
		var at []int64
		for _, m := range append(all, others...) {
			at = append(at, m.At)
			disturbed = disturbed || m.Late
		}
		require.Len(t, at, calls)
		if disturbed || bytes.Contains([]byte(said), []byte("stale 0")) {
			return true
		}
		require.LessOrEqual(t, mostIn(at, time.Second), rate)
		return false
	})
}

// TestAPausedServer: Redis does not reply for a while, or loses its state.
func TestAPausedServer(t *testing.T) {
	t.Parallel()
	const rate, slack, pause = 200, 250 * time.Millisecond, 2 * time.Second
	for name, c := range map[string]struct {
		policy  pace.FailurePolicy
		disturb []string
	}{
		"deny":           {pace.Deny, []string{"CLIENT", "PAUSE", "2000", "ALL"}},
		"local":          {pace.Local, []string{"CLIENT", "PAUSE", "2000", "ALL"}},
		"state lost":     {pace.Deny, []string{"FLUSHALL"}},
		"nothing at all": {pace.Deny, []string{"PING"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			undisturbed(t, func() bool {
				srv := redistest.Start(t)
				client := redis.NewClient(&redis.Options{Addr: srv.Addr})
				shared := core.Must(redisstore.New(client, redisstore.Config{Mode: redisstore.Coalesced, Timeout: slack}))
				var store ratelimit.Store = shared
				if c.policy == pace.Local {
					store = core.Must(share.New(store, share.Config{}))
				}
				defer func() { _ = errors.Join(store.Close(), client.Close()) }()
				p := core.Must(pace.New(pace.Config{Name: "vendor", Rates: perSecond(rate), Slack: slack, Store: store, OnStoreError: c.policy}))
				defer func() { _ = p.Close() }()
				ctx, cancel := context.WithCancel(t.Context())
				var mu sync.Mutex
				var calls []int64
				late := false
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() {
						for ctx.Err() == nil {
							permit, err := p.Wait(ctx, "k", 1)
							now := time.Now()
							if err != nil {
								time.Sleep(5 * time.Millisecond) // a caller that tries again
								continue
							}
							mu.Lock()
							late = late || permit.Stale()
							calls = append(calls, now.UnixNano())
							mu.Unlock()
						}
					})
				}
				longest := time.Duration(0) // for which the machine has run nothing
				wg.Go(func() {
					for last := time.Now(); ctx.Err() == nil; {
						time.Sleep(5 * time.Millisecond)
						now := time.Now()
						longest, last = max(longest, now.Sub(last)), now
					}
				})
				require.Eventually(t, func() bool {
					mu.Lock()
					defer mu.Unlock()
					return len(calls) > rate/2 // calls as usual
				}, time.Minute, time.Millisecond)
				before := shared.Stats()
				disturbed := time.Now().UnixNano()
				_, err := srv.Do(c.disturb...)
				paused := time.Now().UnixNano()           // by then, and for as long as since disturbed at least
				time.Sleep(pause + 1200*time.Millisecond) // and again
				stalled := time.Duration(time.Now().UnixNano()-disturbed) > pause+1200*time.Millisecond+slack
				cancel()
				wg.Wait()
				require.NoError(t, err)
				if late || stalled {
					return true
				}
				require.LessOrEqual(t, mostIn(calls, time.Second), rate)
				during := 0
				for _, at := range calls {
					if time.Duration(at-paused) > slack+50*time.Millisecond && time.Duration(at-disturbed) < pause-50*time.Millisecond {
						during++
					}
				}
				if name == "deny" {
					require.Zero(t, during)
				}
				last := time.Duration(slices.Max(calls) - disturbed)
				goesOn := (during > 0 || name == "deny") && last > pause+500*time.Millisecond
				slow := longest > slack || before.Timeouts > 0 || c.disturb[0] != "CLIENT" && shared.Stats().Timeouts > 0
				if slow && !goesOn { // the machine stood still, or replies were lost before
					return true
				}
				require.True(t, goesOn, "%d calls during the pause, the last one %v after its begin", during, last)
				return false
			})
		})
	}
}
