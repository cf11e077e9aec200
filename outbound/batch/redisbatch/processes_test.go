package redisbatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/pace"
	"github.com/gresil/gresil/stores/redisstore"
)

// processVar is the variable of the environment that makes the test binary one of the processes.
const processVar = "GRESIL_TEST_REDISBATCH"

func TestMain(m *testing.M) {
	logging.Disable() // of connections to servers that the tests stop
	redistest.Main(processVar, processMain)
	os.Exit(m.Run())
}

// A process sends records to a vendor until its input ends.
type process struct {
	Name          string
	Redis, Vendor string
	Lease         time.Duration
	Rate          pace.Rate // of all processes together; none if zero
	Slack         time.Duration
	Poison        string // a record that ends the process
}

func processMain(text string) error {
	var p process
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return err
	}
	b, err := p.batcher(redis.NewClient(&redis.Options{Addr: p.Redis}))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	fmt.Println("ready")
	return b.Run(ctx)
}

const methodOfAll = "contacts: merge"

func (p process) batcher(client *redis.Client) (*batch.Batcher[string, string], error) {
	store, err := New(client, Config{})
	if err != nil {
		return nil, err
	}
	cfg := batch.Config[string, string]{
		Name: "processes", Method: methodOfAll, MaxRecords: 20, FlushAfter: time.Hour, Lease: p.Lease, Store: store,
		Option:  func(record string) string { return record[:strings.IndexByte(record, '/')] },
		Backoff: backoff.Constant{Delay: 10 * time.Millisecond},
		Send:    p.send,
	}
	if p.Rate.Calls > 0 {
		limits, err := redisstore.New(client, redisstore.Config{Timeout: 5 * time.Second})
		if err != nil {
			return nil, err
		}
		if cfg.Pacer, err = pace.New(pace.Config{Name: "vendor", Rates: []pace.Rate{p.Rate}, Slack: p.Slack, Store: limits}); err != nil {
			return nil, err
		}
	}
	return batch.New(cfg)
}

// send reports to the vendor that it has a batch, and then sends it.
func (p process) send(ctx context.Context, option string, records []string) ([]batch.Result[string], error) {
	if p.Poison != "" && slices.Contains(records, p.Poison) {
		os.Exit(137)
	}
	for _, path := range []string{"/leased", "/merge"} {
		body, _ := json.Marshal(records)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Vendor+path, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Idempotency-Key", batch.IdempotencyKey(ctx))
		req.Header.Set("X-Process", p.Name)
		req.Header.Set("X-Option", option)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil, errors.New(resp.Status)
		}
	}
	results := make([]batch.Result[string], len(records))
	for i, r := range records {
		results[i].Value = "done " + r
	}
	return results, nil
}

// A vendor keeps what arrives.
type vendor struct {
	*httptest.Server
	mu      sync.Mutex
	calls   []call
	stall   func(path, process string, n int) bool // whether a request is never answered; n counts from 1
	counts  map[string]int
	stalled chan string
	latency time.Duration
}

// A call is one request with records.
type call struct {
	at                   time.Time
	process, option, key string
	records              []string
}

func newVendor(tb testing.TB) *vendor {
	tb.Helper()
	v := &vendor{counts: map[string]int{}, stalled: make(chan string, 100)}
	v.Server = httptest.NewServer(v)
	tb.Cleanup(func() {
		v.CloseClientConnections()
		v.Close()
	})
	return v
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := call{at: time.Now(), process: r.Header.Get("X-Process"), option: r.Header.Get("X-Option"), key: r.Header.Get("Idempotency-Key")}
	if err := json.NewDecoder(r.Body).Decode(&c.records); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	v.mu.Lock()
	if r.URL.Path == "/merge" {
		v.calls = append(v.calls, c)
	}
	v.counts[r.URL.Path+c.process]++
	stall := v.stall != nil && v.stall(r.URL.Path, c.process, v.counts[r.URL.Path+c.process])
	v.mu.Unlock()
	time.Sleep(v.latency) // of the vendor, so that processes are killed with calls in flight
	if stall {
		v.stalled <- c.process
		<-r.Context().Done()
	}
}

// records returns the keys of the calls with each record.
func (v *vendor) records() map[string][]string {
	v.mu.Lock()
	defer v.mu.Unlock()
	keys := map[string][]string{}
	for _, c := range v.calls {
		for _, r := range c.records {
			keys[r] = append(keys[r], c.key)
		}
	}
	return keys
}

// judge requires that each record arrived, and more than once only with one key and all the records of
// that call.
func (v *vendor) judge(tb testing.TB, want []string) (duplicates int) {
	tb.Helper()
	got := v.records()
	require.Len(tb, got, len(want))
	for _, r := range want {
		require.NotEmpty(tb, got[r], r)
		require.Len(tb, slices.Compact(slices.Clone(got[r])), 1, "%s was sent with the keys %v", r, got[r])
		duplicates += len(got[r]) - 1
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	sets := map[string][]string{}
	for _, c := range v.calls {
		if sets[c.key] == nil {
			sets[c.key] = c.records
		}
		require.Equal(tb, sets[c.key], c.records, "calls with the key %s", c.key)
	}
	return duplicates
}

// A running process.
type running struct {
	process
	cmd    *exec.Cmd
	stdin  io.Closer
	errs   *strings.Builder
	killed bool
}

// start starts the test binary as a process, which ends with the test.
func (p process) start(tb testing.TB) *running {
	tb.Helper()
	text, err := json.Marshal(p)
	require.NoError(tb, err)
	r := &running{process: p, cmd: redistest.Process(context.Background(), processVar, string(text)), errs: &strings.Builder{}}
	r.cmd.Stderr = r.errs
	r.stdin, err = r.cmd.StdinPipe()
	require.NoError(tb, err)
	out, err := r.cmd.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, r.cmd.Start())
	_, err = out.Read(make([]byte, 10)) // it is ready
	require.NoError(tb, err, "%s", r.errs)
	tb.Cleanup(func() { r.end(tb) })
	return r
}

func (r *running) end(tb testing.TB) {
	tb.Helper()
	if r.killed {
		return
	}
	r.killed = true
	_ = r.stdin.Close()
	require.NoError(tb, r.cmd.Wait(), "%s", r.errs)
}

// kill ends the process at once.
func (r *running) kill(t *testing.T) {
	t.Helper()
	r.killed = true
	require.NoError(t, r.cmd.Process.Kill())
	_ = r.cmd.Wait() // the error says that it was killed
	_ = r.stdin.Close()
}

// put adds n records, dealt over some options, from this process, which sends none. It returns them, and
// a function that flushes them.
func (p process) put(tb testing.TB, client *redis.Client, n, options int) (all []string, flush func()) {
	tb.Helper()
	b, err := p.batcher(client)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = b.Close() })
	var mu sync.Mutex
	var wg sync.WaitGroup
	for from := range 50 {
		wg.Go(func() {
			for i := from; i < n; i += 50 {
				r := fmt.Sprintf("option:%d/%d", i%options, i)
				if _, err := b.Add(context.Background(), r); err != nil {
					tb.Error(err)
					return
				}
				mu.Lock()
				all = append(all, r)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all, func() { require.NoError(tb, b.Flush(tb.Context())) }
}

// drained waits until the store has no records.
func drained(tb testing.TB, client *redis.Client, within time.Duration) {
	tb.Helper()
	s, err := New(client, Config{})
	require.NoError(tb, err)
	require.Eventually(tb, func() bool {
		state, err := s.Ready(tb.Context(), methodOfAll, time.Hour)
		return err == nil && state.Records == 0
	}, within, 20*time.Millisecond)
}

// TestKilledProcesses: a process is killed while it has leased batches that it has not sent, and another
// one when the vendor has a call and no reply was read. A third process sends all the same, without any
// further record: each arrives, and again only with the same key.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	client := srv.client(t)
	v := newVendor(t)
	v.stall = func(path, process string, n int) bool {
		return process == "leases" && path == "/leased" && n > 2 || process == "sends" && path == "/merge" && n > 2
	}
	p := process{Redis: srv.Addr, Vendor: v.URL, Lease: 2 * time.Second}
	all, flush := p.put(t, client, 1000, 4)
	flush()
	for _, p.Name = range []string{"leases", "sends"} {
		r := p.start(t)
		for range 4 { // its Concurrency: each call stalls
			require.Equal(t, p.Name, <-v.stalled)
		}
		r.kill(t)
	}
	p.Name = "last"
	p.start(t)
	drained(t, client, time.Minute)
	require.GreaterOrEqual(t, v.judge(t, all), 4*20, "the four calls whose replies were not read")
	require.Empty(t, keys(t, client))
}

// groupsOf returns the groups of all processes.
func groupsOf(t *testing.T, client *redis.Client) []batch.GroupInfo {
	t.Helper()
	s, err := New(client, Config{})
	require.NoError(t, err)
	listing, err := s.Groups(t.Context(), methodOfAll, 100)
	require.NoError(t, err)
	return listing.Groups
}

// A record that ends each process that sends it has failed after some of them. The others are sent.
func TestPoisonRecordEndsProcesses(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	client := srv.client(t)
	v := newVendor(t)
	p := process{Redis: srv.Addr, Vendor: v.URL, Lease: 200 * time.Millisecond, Poison: "option:0/13"}
	all, flush := p.put(t, client, 20, 1)
	flush()
	deaths := 0
	for len(v.records()) < len(all)-1 || groupsOf(t, client)[0].Failed == 0 {
		r := p.start(t)
		ended := make(chan error, 1)
		go func() { ended <- r.cmd.Wait() }()
		for alive := true; alive; {
			select {
			case err := <-ended:
				require.Error(t, err)
				r.killed, alive = true, false
				deaths++
				require.LessOrEqual(t, deaths, 12+5, "%d of 19 others are sent; 5 leases may be lost to a busy machine", len(v.records()))
			case <-time.After(20 * time.Millisecond):
				if groups := groupsOf(t, client); len(groups) == 1 && groups[0].Failed == 1 && len(v.records()) == len(all)-1 {
					_ = r.stdin.Close()
					require.NoError(t, <-ended)
					r.killed, alive = true, false
				}
			}
		}
	}
	require.NotContains(t, v.records(), p.Poison)
	group := groupsOf(t, client)[0]
	require.Equal(t, 1, group.Failed)
	require.Zero(t, group.Pending+group.InFlight+group.Retrying)
	require.Contains(t, group.LastError, "processes ended, or lost the store, during a call with the record")
	t.Logf("%d processes have ended", deaths)
}

// Processes that are killed for another reason let no record fail.
func TestHealthyKillsFailNoRecord(t *testing.T) {
	t.Parallel()
	srv := startServer(t)
	client := srv.client(t)
	v := newVendor(t)
	v.latency = 5 * time.Millisecond
	p := process{Redis: srv.Addr, Vendor: v.URL, Lease: 200 * time.Millisecond}
	all, flush := p.put(t, client, 1000, 4)
	flush()
	for kill := range 5 {
		p.Name = strconv.Itoa(kill)
		r := p.start(t)
		require.Eventually(t, func() bool {
			v.mu.Lock()
			defer v.mu.Unlock()
			return v.counts["/merge"+p.Name] > 0
		}, time.Minute, time.Millisecond)
		r.kill(t)
	}
	p.start(t)
	drained(t, client, time.Minute)
	require.Len(t, v.records(), len(all))
	require.Empty(t, groupsOf(t, client))
}

// TestTwoProcessesShareTheRate: two processes make exactly ceil(n / 20) calls for each option, and the
// vendor never sees more than the rate, in any interval of its length.
func TestTwoProcessesShareTheRate(t *testing.T) {
	t.Parallel()
	quiettest.Test(t, func(t *quiettest.T) {
		shareTheRate(t, 430, 4, pace.Rate{Calls: 20, Per: 2 * time.Second}, 1900*time.Millisecond)
	})
}

func shareTheRate(tb testing.TB, n, options int, rate pace.Rate, slack time.Duration) {
	tb.Helper()
	srv := startServer(tb)
	client := srv.client(tb)
	v := newVendor(tb)
	p := process{Redis: srv.Addr, Vendor: v.URL, Lease: 20 * time.Second, Rate: rate, Slack: slack}
	all, flush := p.put(tb, client, n, options)
	for i := range 2 {
		p.Name = strconv.Itoa(i)
		p.start(tb)
	}
	begun := time.Now()
	flush()
	drained(tb, client, 10*time.Minute)
	took := time.Since(begun)
	require.Zero(tb, v.judge(tb, all))
	v.mu.Lock()
	defer v.mu.Unlock()
	slices.SortFunc(v.calls, func(a, b call) int { return a.at.Compare(b.at) })
	calls, senders := map[string]int{}, map[string]int{}
	for i, c := range v.calls {
		calls[c.option]++
		senders[c.process]++
		if most := int(rate.Calls); i >= most {
			require.GreaterOrEqual(tb, c.at.Sub(v.calls[i-most].at), rate.Per, "calls %d to %d", i-most, i)
		}
	}
	for i := range options {
		of := (n - i + options - 1) / options
		require.Equal(tb, (of+19)/20, calls[fmt.Sprintf("option:%d", i)], "option %d", i)
	}
	require.Len(tb, senders, 2, "both send")
	tb.Logf("%d calls in %v, by process %v", len(v.calls), took, senders)
}
