package dispatch_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
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
	d, err := dispatch.New(dispatch.Config[string, struct{}]{Name: "vendor", Capacity: 4, Store: store})
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
			go func() {
				resp, err := client.Get(p.Vendor + "?process=" + strconv.Itoa(p.Name))
				if err == nil {
					_ = resp.Body.Close()
				}
			}()
		}
	}
}

// A vendorOf4 remembers when each process called, and asks one of them for a pause.
type vendorOf4 struct {
	mu       sync.Mutex
	arrivals [5][]time.Time
	trip     bool
	told     time.Time
}

const (
	pause      = 3 * time.Second
	allStopped = 1500 * time.Millisecond // on any machine
)

func (v *vendorOf4) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	name, _ := strconv.Atoi(r.URL.Query().Get("process"))
	v.mu.Lock()
	defer v.mu.Unlock()
	v.arrivals[name] = append(v.arrivals[name], now)
	if v.trip && name == 1 {
		v.trip, v.told = false, now
		w.Header().Set("Retry-After", strconv.Itoa(int(pause/time.Second)))
		w.WriteHeader(http.StatusTooManyRequests)
	}
}

// between returns how many calls a process made in a part of the pause.
func (v *vendorOf4) between(process int, from, to time.Duration) (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, at := range v.arrivals[process] {
		if since := at.Sub(v.told); since >= from && since < to {
			n++
		}
	}
	return n
}

// lastBefore returns when a process last called before a moment of the pause.
func (v *vendorOf4) lastBefore(process int, to time.Duration) (last time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, at := range v.arrivals[process] {
		if since := at.Sub(v.told); since < to {
			last = max(last, since)
		}
	}
	return last
}

func (v *vendorOf4) until(t *testing.T, what func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		return what()
	}, 20*time.Second, time.Millisecond)
}

// startProcesses starts four processes, which call until the test ends.
func startProcesses(t *testing.T, redisAddr string) *vendorOf4 {
	t.Helper()
	v := &vendorOf4{}
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

// TestACooldownStopsFourProcesses: one of four processes is asked for a pause of 3 seconds. After 50ms
// no call arrives from any of them until the pause is over, although the server of the store is killed
// meanwhile. Then all call again. A machine with other work can hold a call back between its check and
// its way out, so that one of four tries must keep the 50ms, and each of them 1.5s.
func TestACooldownStopsFourProcesses(t *testing.T) {
	t.Parallel()
	var last time.Duration
	for range 4 {
		t.Run("", func(t *testing.T) { last = lastOfAPause(t) })
		if t.Failed() || last < 50*time.Millisecond { // the vendor answers at once: nothing is in flight for so long
			return
		}
		t.Logf("the last call came after %v", last)
	}
	require.Less(t, last, 50*time.Millisecond)
}

// lastOfAPause returns when the last call of a pause arrived, from its begin on.
func lastOfAPause(t *testing.T) (last time.Duration) {
	t.Helper()
	srv := redistest.Start(t)
	v := startProcesses(t, srv.Addr)
	time.Sleep(time.Until(v.told.Add(allStopped))) // the hold must be in all processes before the server ends
	srv.Kill()
	v.until(t, func() bool { return time.Since(v.told) > pause })
	for name := 1; name <= 4; name++ {
		require.Zero(t, v.between(name, allStopped, pause), "process %d", name)
		last = max(last, v.lastBefore(name, pause))
	}
	v.until(t, func() bool {
		for _, calls := range v.arrivals[1:] {
			if calls[len(calls)-1].Sub(v.told) < pause {
				return false
			}
		}
		return true
	})
	return last
}

// Without a store, the others do not stop: the check above fails.
func TestWithoutAStoreFourProcessesDoNotStop(t *testing.T) {
	t.Parallel()
	v := startProcesses(t, "")
	require.Eventually(t, func() bool { return v.between(3, allStopped, pause) > 10 }, 20*time.Second, time.Millisecond)
}
