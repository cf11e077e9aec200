package redisstore

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/internal/redistest"
)

// slotsVar is the variable of the environment that makes the test binary one of the processes.
const slotsVar = "GRESIL_TEST_SLOTS"

const (
	slots      = 10
	slotsLease = 4 * time.Second
	goroutines = 8 // of a process
)

// A slotsProcess calls a vendor from its goroutines until its input ends. Each call makes a bulkhead
// of its own.
type slotsProcess struct {
	Name          int
	Vendor, Redis string // Redis is "" for bulkheads without a store
}

func slotsMain(text string) error {
	var p slotsProcess
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	cfg := bulkhead.Config{Name: "vendor", Limit: slots}
	if p.Redis != "" {
		client := redis.NewClient(&redis.Options{Addr: p.Redis})
		defer func() { _ = client.Close() }()
		s, err := New(client, Config{Timeout: slotsLease / 10, Lease: slotsLease})
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		cfg.Store = s
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for ctx.Err() == nil {
				if !p.call(ctx, cfg) {
					time.Sleep(20 * time.Millisecond) // a rejected process waits before its next call
				}
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	wg.Wait()
	return nil
}

func (p slotsProcess) call(ctx context.Context, cfg bulkhead.Config) bool {
	b := core.Must(bulkhead.New(cfg))
	permit, err := b.Acquire(ctx, "account")
	if err != nil {
		return false
	}
	defer func() { permit.Done(core.Success) }()
	req := core.Must(http.NewRequestWithContext(permit.Context(), http.MethodGet, p.Vendor+"?process="+strconv.Itoa(p.Name), http.NoBody)) //nolint:contextcheck // it is derived from ctx
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err == nil
}

// A vendorOfSlots counts the calls that it serves at a time.
type vendorOfSlots struct {
	mu    sync.Mutex
	now   map[int]int // by process
	most  int         // of all, since it was set to 0
	calls [5]int
	keep  bool // the calls of process 1 until its end
}

func (v *vendorOfSlots) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	name, _ := strconv.Atoi(r.URL.Query().Get("process"))
	v.mu.Lock()
	v.now[name]++
	v.calls[name]++
	v.most = max(v.most, v.inFlight(0))
	long := name == 1 && v.keep
	v.mu.Unlock()
	if long {
		<-r.Context().Done()
	} else {
		time.Sleep(20 * time.Millisecond) // the length of a call
	}
	v.mu.Lock()
	v.now[name]--
	v.mu.Unlock()
}

// inFlight returns the calls of all processes but one.
func (v *vendorOfSlots) inFlight(without int) (n int) {
	for name, calls := range v.now {
		if name != without {
			n += calls
		}
	}
	return n
}

func (v *vendorOfSlots) do(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
}

// mostNow returns the most calls at a time since the last mostNow.
func (v *vendorOfSlots) mostNow() (n int) {
	v.do(func() { n, v.most = v.most, 0 })
	return n
}

// served waits until every one of some processes has made more calls.
func (v *vendorOfSlots) served(t *testing.T, n int, names ...int) {
	t.Helper()
	var before [5]int
	v.do(func() { before = v.calls })
	require.Eventually(t, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, name := range names {
			if v.calls[name] < before[name]+n {
				return false
			}
		}
		return true
	}, 2*busy, time.Millisecond)
}

// all waits until all slots are in use at a time, and never were more.
func (v *vendorOfSlots) all(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() (all bool) {
		v.do(func() { all = v.most >= slots })
		return all
	}, 2*busy, time.Millisecond)
	require.Equal(t, slots, v.mostNow())
}

// startSlots starts four processes, which call until the test ends.
func startSlots(t *testing.T, redisAddr string) (v *vendorOfSlots, kill func(name int)) {
	t.Helper()
	v = &vendorOfSlots{now: map[int]int{}}
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	var all [5]*exec.Cmd
	var killed [5]bool
	for name := 1; name <= 4; name++ {
		text, err := json.Marshal(slotsProcess{Name: name, Vendor: server.URL, Redis: redisAddr})
		require.NoError(t, err)
		cmd := redistest.Process(context.Background(), slotsVar, string(text))
		var errs strings.Builder
		cmd.Stderr = &errs
		stdin, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		all[name] = cmd
		t.Cleanup(func() {
			_ = stdin.Close()
			if err := cmd.Wait(); !killed[name] {
				require.NoError(t, err, "%s", &errs)
			}
		})
	}
	return v, func(name int) {
		killed[name] = true
		require.NoError(t, all[name].Process.Kill())
	}
}

// TestTenSlotsOfFourProcesses: 32 goroutines in four processes make a bulkhead for 10 calls in every
// call. The vendor never serves 11 calls at a time: not when the server of the store is killed and
// has lost all, and not when a process with 8 calls is killed, whose slots are used again after their
// lease. The other 2 are in use all the time.
func TestTenSlotsOfFourProcesses(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	client := srv.client(t)
	v, kill := startSlots(t, srv.Addr)
	v.served(t, 50, 1, 2, 3, 4)
	v.all(t)

	srv.Kill()
	require.Eventually(t, func() (none bool) {
		v.do(func() { none = v.inFlight(0) == 0 })
		return none
	}, busy, time.Millisecond, "without the store, calls are rejected")
	require.NoError(t, srv.Restart())
	v.served(t, 50, 1, 2, 3, 4)
	v.all(t)

	v.do(func() { v.keep = true })
	require.Eventually(t, func() (held bool) {
		v.do(func() { held = v.now[1] == goroutines })
		return held
	}, busy, time.Millisecond)
	kill(1)
	leases := func() map[string]float64 { // by their holder, the time at which each ends
		all, err := client.ZRangeWithScores(t.Context(), "gresil:{bulkheads}:leases:=vendor:=account", 0, -1).Result()
		require.NoError(t, err)
		ends := map[string]float64{}
		for _, z := range all {
			ends[z.Member.(string)] = z.Score //nolint:forcetypeassert // as go-redis has it
		}
		return ends
	}
	dead := leases()
	require.Eventually(t, func() (ended bool) {
		v.do(func() { ended = v.now[1] == 0 })
		return ended
	}, busy, time.Millisecond)
	require.LessOrEqual(t, v.mostNow(), slots)
	v.served(t, 20, 2, 3, 4)
	most, now := v.mostNow(), leases()
	maps.DeleteFunc(dead, func(holder string, _ float64) bool { _, left := now[holder]; return !left })
	if len(dead) == goroutines {
		require.Equal(t, slots-goroutines, most, "its slots are not free yet, and the others are in use")
		free := slices.Min(slices.Collect(maps.Values(dead)))
		require.Eventually(t, func() (more bool) {
			v.do(func() { more = v.most > slots-goroutines })
			return more
		}, busy, time.Millisecond)
		require.Greater(t, serverTime(t, client), free, "its slots are free after their lease")
	}
	v.served(t, 50, 2, 3, 4)
	v.all(t)
}

// Without a store, the check above fails.
func TestWithoutAStoreThereAreMoreCalls(t *testing.T) {
	t.Parallel()
	v, _ := startSlots(t, "")
	require.Eventually(t, func() (more bool) {
		v.do(func() { more = v.most > slots })
		return more
	}, busy, time.Millisecond)
}
