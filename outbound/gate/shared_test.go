package gate_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/redistest"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/stores/redisstore"
)

// processes returns gates with a Store of their own each, as in as many processes.
func processes(t *testing.T, addr string, n int, cfg gate.Config) []*gate.Gate {
	t.Helper()
	cfg.Name = rand.Text()
	var all []*gate.Gate
	for range n {
		client := redis.NewClient(&redis.Options{Addr: addr})
		store := core.Must(redisstore.New(client, redisstore.Config{Timeout: time.Second}))
		cfg.Store = store
		g := core.Must(gate.New(cfg))
		all = append(all, g)
		t.Cleanup(func() {
			_ = g.Close(context.Background())
			_ = store.Close()
			_ = client.Close()
		})
	}
	return all
}

type limited struct{ pause time.Duration }

func (limited) Error() string               { return "limited" }
func (l limited) RetryAfter() time.Duration { return l.pause }

// A counter counts the calls that are under way.
type counter struct {
	mu           sync.Mutex
	flying, most int
	begun        []time.Time
}

func (c *counter) call(takes time.Duration) (n int) {
	c.mu.Lock()
	c.begun = append(c.begun, time.Now())
	c.flying++
	c.most = max(c.most, c.flying)
	n = len(c.begun)
	c.mu.Unlock()
	time.Sleep(takes)
	c.mu.Lock()
	c.flying--
	c.mu.Unlock()
	return n
}

// loop makes calls by each gate in some goroutines until ctx ends.
func loop(ctx context.Context, t *testing.T, gates []*gate.Gate, callers int, fn func(process int)) {
	t.Helper()
	var wg sync.WaitGroup
	for i, g := range gates {
		for range callers {
			wg.Go(func() {
				for ctx.Err() == nil {
					err := g.Do(ctx, gate.Call{}, func(context.Context) error {
						fn(i)
						return nil
					})
					if err != nil && !errors.Is(err, gate.ErrLimited) && ctx.Err() == nil {
						t.Error(err)
					}
					if errors.Is(err, gate.ErrLimited) {
						<-ctx.Done() // its deadline comes before a slot
					}
				}
			})
		}
	}
	wg.Wait()
}

func TestSharedProbe(t *testing.T) {
	t.Parallel()
	for _, n := range []int{4, 16} {
		gates := processes(t, redistest.Start(t).Addr, n, gate.Config{})
		var probe, later counter
		probing, answered := make(chan struct{}, n+1), make(chan struct{})
		var first sync.Once
		var limitedAt time.Time
		call := func(context.Context) (err error) {
			first.Do(func() {
				limitedAt = time.Now()
				err = limited{2 * time.Second}
			})
			if err != nil {
				return err
			}
			select {
			case <-answered:
				later.call(time.Millisecond)
			default:
				probe.call(0)
				probing <- struct{}{}
				<-answered
			}
			return nil
		}
		var wg sync.WaitGroup
		refused := gates[0].Do
		wg.Go(func() { assert.NoError(t, refused(t.Context(), gate.Call{}, call)) })
		require.Eventually(t, func() bool { return len(gates[0].Holds()) == 1 }, time.Minute, time.Millisecond)
		time.Sleep(100 * time.Millisecond) // the hold is on its way
		for _, g := range gates[1:] {
			wg.Go(func() { assert.NoError(t, g.Do(t.Context(), gate.Call{}, call)) })
		}
		<-probing
		require.Greater(t, time.Since(limitedAt), 2*time.Second)
		time.Sleep(time.Second) // every process asks
		require.Len(t, probe.begun, 1)
		close(answered)
		wg.Wait()
		require.Len(t, later.begun, n-1)
	}
}

// Four processes at a distance send as fast as they can: no second has more calls than the limit.
func TestSharedRate(t *testing.T) {
	t.Parallel()
	quiettest.Repeat(t, func() error { return sharedRate(t, time.Minute, 700) })
}

// sharedRate makes calls for a while, or until there were so many.
func sharedRate(t *testing.T, while time.Duration, calls int) error {
	t.Helper()
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	proxy.Delay(15 * time.Millisecond)
	gates := processes(t, proxy.Addr, 4, gate.Config{Limits: []gate.Limit{{N: 500, Per: time.Second}}})
	ctx, cancel := context.WithTimeout(t.Context(), while)
	defer cancel()
	var c counter
	loop(ctx, t, gates, 60, func(int) {
		if c.call(0) == calls {
			cancel()
		}
	})
	if n := most(c.begun, nil, time.Second); n > 500 {
		return fmt.Errorf("%d calls in a second", n)
	}
	if calls > 0 {
		require.GreaterOrEqual(t, len(c.begun), calls)
		return nil
	}
	n, ideal := 0, 2*500/1.05
	for _, at := range c.begun {
		if since := at.Sub(c.begun[0]); since > time.Second && since <= 3*time.Second {
			n++
		}
	}
	if float64(n) < 0.85*ideal {
		return fmt.Errorf("%d calls in 2 s", n)
	}
	return nil
}

// Four processes share places: there are never more calls in flight, and each process gets some.
func TestSharedPlaces(t *testing.T) {
	t.Parallel()
	require.NoError(t, sharedPlaces(t, time.Minute, 20*time.Millisecond, 5))
}

// sharedPlaces makes calls for a while, or until each process has made so many.
func sharedPlaces(t *testing.T, while, takes time.Duration, calls int64) error {
	t.Helper()
	gates := processes(t, redistest.Start(t).Addr, 4, gate.Config{InFlight: 5})
	ctx, cancel := context.WithTimeout(t.Context(), while)
	defer cancel()
	var c counter
	var enough atomic.Int64
	counts := make([]atomic.Int64, len(gates))
	loop(ctx, t, gates, 10, func(i int) {
		c.call(takes)
		if counts[i].Add(1) == calls && enough.Add(1) == int64(len(gates)) {
			cancel()
		}
	})
	require.LessOrEqual(t, c.most, 5)
	if calls > 0 {
		require.EqualValues(t, len(gates), enough.Load(), "a process has made fewer")
		return nil
	}
	sum := len(c.begun)
	if used := takes.Seconds() * float64(sum) / (5 * while.Seconds()); used < 0.85 {
		return fmt.Errorf("%v of the places used", used)
	}
	for i := range counts {
		if n := int(counts[i].Load()); n*100 < 15*sum {
			return fmt.Errorf("process %d has made %d of %d", i, n, sum)
		}
	}
	return nil
}

// processVar is the variable of the environment that makes the test binary a process with a gate.
const processVar = "GRESIL_TEST_GATE"

func TestMain(m *testing.M) {
	if value, ok := os.LookupEnv(processVar); ok {
		processMain(strings.Fields(value))
	}
	os.Exit(m.Run())
}

// processMain calls a vendor for ever, eight times at once. The words are the address of Redis, the name of the gate, and the URL.
func processMain(words []string) {
	store := core.Must(redisstore.New(redis.NewClient(&redis.Options{Addr: words[0]}), redisstore.Config{Timeout: time.Second}))
	g := core.Must(gate.New(gate.Config{Name: words[1], InFlight: 5, Store: store}))
	c := &http.Client{Transport: g.Transport(http.DefaultTransport)}
	for range 8 {
		go func() {
			for {
				resp, err := c.Get(words[2])
				if err != nil {
					fmt.Fprintln(os.Stderr, "process:", err)
					os.Exit(1)
				}
				_ = resp.Body.Close()
			}
		}()
	}
	select {}
}

// A crowd is a vendor that counts the calls of each process, and those in flight.
type crowd struct {
	counter

	flyingOf, answers map[string]int
}

func (c *crowd) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	of := r.URL.Path
	c.mu.Lock()
	c.flying++
	c.flyingOf[of]++
	c.most = max(c.most, c.flying)
	c.mu.Unlock()
	select {
	case <-time.After(100 * time.Millisecond): // a real call
	case <-r.Context().Done(): // its process is killed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flying--
	c.flyingOf[of]--
	c.answers[of]++
}

// until waits until f is true, which has the lock.
func (c *crowd) until(t *testing.T, f func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return f()
	}, time.Minute, time.Millisecond)
}

// after waits for n more answers to each of some processes, and returns the most calls in flight meanwhile.
func (c *crowd) after(t *testing.T, n int, of ...string) (most int) {
	t.Helper()
	begun := map[string]int{}
	c.until(t, func() bool {
		c.most = c.flying
		for _, name := range of {
			begun[name] = c.answers[name]
		}
		return true
	})
	c.until(t, func() bool {
		most = c.most
		for _, name := range of {
			if c.answers[name] < begun[name]+n {
				return false
			}
		}
		return true
	})
	return most
}

// The places of a process that is killed are those of the others when its lease ends. One that was stopped for longer than its lease
// adds at most the places that it had, and only once.
func TestSharedPlacesOfProcesses(t *testing.T) {
	t.Parallel()
	c := &crowd{flyingOf: map[string]int{}, answers: map[string]int{}}
	srv := httptest.NewServer(c)
	addr, name := redistest.Start(t).Addr, rand.Text()
	var all []*exec.Cmd
	for i := range 4 {
		cmd := exec.CommandContext(t.Context(), core.Must(os.Executable())) //nolint:gosec // ourselves
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s/%d", processVar, addr, name, srv.URL, i))
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		all = append(all, cmd)
	}
	t.Cleanup(func() {
		for _, cmd := range all {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		srv.Close()
	})
	require.LessOrEqual(t, c.after(t, 5, "/0", "/1", "/2", "/3"), 5)

	c.until(t, func() bool {
		return c.flyingOf["/0"] > 0 && all[0].Process.Kill() == nil
	})
	c.until(t, func() bool { return c.flyingOf["/0"] == 0 })
	c.until(t, func() bool { return c.flying == 5 }) // with its places
	require.LessOrEqual(t, c.after(t, 10, "/1", "/2", "/3"), 5)

	c.until(t, func() bool {
		return c.flyingOf["/1"] > 0 && all[1].Process.Signal(syscall.SIGSTOP) == nil
	})
	c.until(t, func() bool { return c.flyingOf["/1"] == 0 })
	c.until(t, func() bool { return c.flying == 5 })
	require.LessOrEqual(t, c.after(t, 20, "/2", "/3"), 5)
	require.NoError(t, all[1].Process.Signal(syscall.SIGCONT))
	require.LessOrEqual(t, c.after(t, 3, "/1"), 5+5) // it cannot have had more
	require.LessOrEqual(t, c.after(t, 20, "/1", "/2", "/3"), 5)
}
