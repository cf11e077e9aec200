package dispatch_test

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/dispatch"
	"github.com/gresil/gresil/stores/redisstore"
)

// processVar is the variable of the environment that makes the test binary one of the processes.
const processVar = "GRESIL_TEST_DISPATCH"

func TestMain(m *testing.M) {
	logging.Disable() // of connections to servers that the tests stop
	redistest.Main(processVar, processMain)
	os.Exit(m.Run())
}

// A process calls a vendor every 10ms until its input ends.
type process struct {
	Name   int
	Vendor string
	Redis  string // "" for cooldowns of its own
}

func processMain(text string) error {
	var p process
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	var store cooldown.Store
	if p.Redis != "" {
		client := redis.NewClient(&redis.Options{Addr: p.Redis})
		defer func() { _ = client.Close() }()
		s, err := redisstore.New(client, redisstore.Config{Timeout: time.Second})
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }()
		store = s
	}
	d, err := dispatch.New(dispatch.Config[string, struct{}]{Name: "vendor", Capacity: capacity, Store: store, Hooks: dispatch.Hooks{
		Held: func(context.Context, dispatch.Info) { call(http.DefaultClient, p.Vendor+"/held", p.Name) },
	}})
	if err != nil {
		return err
	}
	client := &http.Client{Transport: dispatch.RoundTripper(d, nil, nil)}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	for {
		select {
		case <-ended:
			return nil // calls that wait end with the process
		case <-tick.C:
			go call(client, p.Vendor, p.Name)
		}
	}
}

func call(c *http.Client, url string, process int) {
	if resp, err := c.Get(url + "?process=" + strconv.Itoa(process)); err == nil {
		_ = resp.Body.Close()
	}
}

// A vendorOf4 remembers when each process called, and asks one of them for a pause.
type vendorOf4 struct {
	mu       sync.Mutex
	arrivals [5][]time.Time
	held     [5]int // the number of arrivals when the process said that it is held
	trip     bool
	told     time.Time
	pause    time.Duration
}

const capacity = 4

func (v *vendorOf4) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	name, _ := strconv.Atoi(r.URL.Query().Get("process"))
	v.mu.Lock()
	defer v.mu.Unlock()
	if r.URL.Path == "/held" {
		v.held[name] = cmp.Or(v.held[name], len(v.arrivals[name]))
		return
	}
	v.arrivals[name] = append(v.arrivals[name], now)
	if v.trip && name == 1 {
		v.trip, v.told = false, now
		w.Header().Set("Retry-After", strconv.Itoa(int(v.pause/time.Second)))
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// inPause returns when a process called in the pause, from its begin on.
func (v *vendorOf4) inPause(arrivals []time.Time) (calls []time.Duration) {
	for _, at := range arrivals {
		if since := at.Sub(v.told); since >= 0 && since < v.pause {
			calls = append(calls, since)
		}
	}
	return calls
}

func (v *vendorOf4) until(t *testing.T, what func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return what()
	}, 20*time.Second, time.Millisecond)
}

// startProcesses starts four processes, which call until the test ends. The vendor then asks one for a pause.
func startProcesses(t *testing.T, redisAddr string, pause time.Duration) *vendorOf4 {
	t.Helper()
	v := &vendorOf4{pause: pause}
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	for name := 1; name <= 4; name++ {
		text, err := json.Marshal(process{Name: name, Vendor: server.URL, Redis: redisAddr})
		require.NoError(t, err)
		cmd := redistest.Process(context.Background(), processVar, string(text))
		var errs strings.Builder
		cmd.Stderr = &errs
		stdin, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = stdin.Close()
			require.NoError(t, cmd.Wait(), "%s", &errs)
		})
	}
	v.until(t, func() bool {
		for _, calls := range v.arrivals[1:] {
			if len(calls) < 20 {
				return false
			}
		}
		return true
	})
	v.mu.Lock()
	v.trip = true
	v.mu.Unlock()
	v.until(t, func() bool { return !v.told.IsZero() })
	return v
}

// TestACooldownStopsFourProcesses: one of four processes is asked for a pause. From the moment at which a
// process says that it is held, only those of its calls arrive in the pause that had passed their check
// before, and these are no more than it makes at a time, although the server of the store is killed
// meanwhile. Then all call again. The soak tests say how soon all are held.
func TestACooldownStopsFourProcesses(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{3 * time.Second, 6 * time.Second, 12 * time.Second} {
		known := false
		t.Run(pause.String(), func(t *testing.T) { known, _ = stopFour(t, pause) })
		if known || t.Failed() {
			return
		}
	}
	t.Fatal("a process did not hear of any pause before its end")
}

// stopFour reports whether all processes knew of the pause before it was over, and when its last call arrived.
func stopFour(t *testing.T, pause time.Duration) (known bool, last time.Duration) {
	t.Helper()
	srv := redistest.Start(t)
	v := startProcesses(t, srv.Addr, pause)
	over := func() bool { return time.Since(v.told) > pause }
	v.until(t, func() bool {
		known = !slices.Contains(v.held[1:], 0)
		return known || over()
	})
	srv.Kill()
	v.until(t, over)
	v.mu.Lock()
	arrivals, held := v.arrivals, v.held
	v.mu.Unlock()
	if !known {
		return false, 0
	}
	for name := 1; name <= 4; name++ {
		require.LessOrEqual(t, len(v.inPause(arrivals[name][held[name]:])), capacity, "process %d", name)
		last = max(last, slices.Max(append(v.inPause(arrivals[name]), 0)))
	}
	v.until(t, func() bool {
		for _, calls := range v.arrivals[1:] {
			if calls[len(calls)-1].Sub(v.told) < pause {
				return false
			}
		}
		return true
	})
	return true, last
}

// Without a store, the others do not stop: the check above fails.
func TestWithoutAStoreFourProcessesDoNotStop(t *testing.T) {
	t.Parallel()
	v := startProcesses(t, "", time.Minute)
	v.until(t, func() bool { return v.held[1] > 0 && len(v.inPause(v.arrivals[3])) > 2*capacity })
	v.mu.Lock()
	held := v.held[3]
	v.mu.Unlock()
	require.Zero(t, held)
}
