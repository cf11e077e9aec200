package standard_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/quiettest"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/logs"
	"github.com/gresil/gresil/metrics"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/standard"
)

func newClient(t *testing.T, cfg standard.ClientConfig) *standard.Client {
	t.Helper()
	c, err := standard.NewClient(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func TestClientZeroConfig(t *testing.T) {
	t.Parallel()
	c := newClient(t, standard.ClientConfig{})
	require.Equal(t, "Overall timeout.Client(standard-total) > Attempts retry.Client(standard) > Admission gate.Gate(standard) > "+
		"Attempt breaker.Client(standard) > Attempt+10 timeout.Client(standard-attempt) > *http.Transport", fmt.Sprint(c.Transport))
	require.Empty(t, c.Transport.(*client.Transport).Check())
	require.Equal(t, 30*time.Second, c.Total.Config().Limit)
	require.Equal(t, 10*time.Second, c.Attempt.Config().Limit)
	require.Equal(t, retry.Config{Name: "standard"}, c.Retry.Config())
	require.Equal(t, breaker.Config{Name: "standard"}, c.Breaker.Config())
}

func TestClientParts(t *testing.T) {
	t.Parallel()
	registry, own := &core.Registry{}, core.Must(timeout.New(timeout.Config{Name: "own"}))
	cfg := standard.ClientConfig{
		Name: "orders", Registry: registry, Retry: retry.Config{Name: "mine"},
		Plugins: []client.Plugin{timeout.NewClient(own, timeout.ClientOptions{})},
	}
	c := newClient(t, cfg)
	require.Contains(t, fmt.Sprint(c.Transport), "(orders-total) > Overall timeout.Client(own) > ")
	names := func() (names []string) {
		for e := range registry.All() {
			names = append(names, e.Kind+" "+e.Name)
		}
		return names
	}
	all := []string{"breaker orders", "gate orders", "retry mine", "timeout orders-attempt", "timeout orders-total"}
	require.Equal(t, all, names())
	total, _ := core.Lookup[*timeout.Timeout](registry, "orders-total")
	require.Same(t, c.Total, total)
	_, err := standard.NewClient(cfg)
	require.ErrorContains(t, err, "already registered")
	require.Equal(t, all, names(), "what was made before the failure is removed")
	require.NoError(t, c.Close())
	require.Empty(t, names())
}

func TestClientConfigMistakes(t *testing.T) {
	t.Parallel()
	twice := core.Must(gate.New(gate.Config{Name: "twice"}))
	for _, c := range []struct {
		cfg  standard.ClientConfig
		want string // no error if empty
	}{
		{standard.ClientConfig{Attempt: timeout.Config{Limit: time.Minute}}, "Attempt.Limit = 1m0s: must be at most that of Total, 30s, or nothing is retried after it"},
		{standard.ClientConfig{Total: timeout.Config{Limit: 5 * time.Second}}, ""},
		{standard.ClientConfig{Total: timeout.Config{Limit: -1}}, ""},
		{standard.ClientConfig{Total: timeout.Config{Limit: -1}, Attempt: timeout.Config{Limit: time.Minute}}, ""},
		{standard.ClientConfig{Attempt: timeout.Config{Limit: -1}, Breaker: breaker.Config{WindowTime: time.Second}}, ""},
		{standard.ClientConfig{Attempt: timeout.Config{Limit: 20 * time.Second}}, ""},
		{standard.ClientConfig{Breaker: breaker.Config{WindowTime: 19 * time.Second}}, "Breaker.WindowTime = 19s: must be at least twice the limit of an attempt, 10s, to count slow attempts"},
		{standard.ClientConfig{Breaker: breaker.Config{Failures: 3, SlowCall: time.Second, Window: 50}}, ""},
		{standard.ClientConfig{Breaker: breaker.Config{Trials: -1}}, "Breaker.Trials = -1: must be"},
		{standard.ClientConfig{Plugins: []client.Plugin{nil}}, "Plugins[0] = <nil>: must be a plugin"},
		{standard.ClientConfig{Plugins: []client.Plugin{client.Route("GET bad:80/")}}, "Plugins[0] = \"GET bad:80/\": must have a host without a port"},
		{standard.ClientConfig{Gate: twice, Plugins: []client.Plugin{twice}}, "Plugins[0] = gate.Gate(twice): must not be"},
		{standard.ClientConfig{Retry: retry.Config{MaxAttempts: -1}, Attempt: timeout.Config{Limit: time.Hour}}, "Retry.MaxAttempts = -1: must be >= 0 (0 means 3)\nstandard.ClientConfig.Attempt.Limit = 1h0m0s"},
	} {
		made, err := standard.NewClient(c.cfg)
		if c.want == "" {
			require.NoError(t, err)
			require.Equal(t, cmp.Or(c.cfg.Attempt.Limit, min(10*time.Second, cmp.Or(max(0, c.cfg.Total.Limit), 30*time.Second)/3)), made.Attempt.Config().Limit)
			require.NoError(t, made.Close())
			continue
		}
		require.Nil(t, made)
		require.ErrorIs(t, err, core.ErrConfig)
		require.Contains(t, err.Error(), "standard.ClientConfig."+c.want)
	}
}

// A host that never answers ends the call in time, and opens its breaker.
func TestClientHangingServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stub := resiltest.NewScript(resiltest.Reply{Delay: -1})
		c := newClient(t, standard.ClientConfig{Base: stub})
		start := time.Now()
		_, err := c.Get("http://one.test/")
		require.ErrorIs(t, err, timeout.ErrTimeout)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(start), 30*time.Second)
		require.Equal(t, 3, stub.Calls())
		_, err = c.Get("http://one.test/")
		require.ErrorIs(t, err, breaker.ErrOpen)
		require.Equal(t, 5, stub.Calls())
	})
}

// A response that asks for a pause holds all requests to its host, and no others.
func TestClientPause(t *testing.T) {
	t.Parallel()
	const pad = float64(200 * time.Millisecond)
	for name, header := range map[string]struct {
		status int
		http.Header
		wait time.Duration
	}{
		"429":                      {429, http.Header{"Retry-After": {"5"}}, 5 * time.Second},
		"429 without a wait":       {429, nil, time.Second},
		"503":                      {503, http.Header{"Retry-After": {"5"}}, 5 * time.Second},
		"a limit of one resource":  {200, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"3600"}}, 0},
		"a failure without a wait": {500, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, standard.ClientConfig{
					Base:  resiltest.NewScript(resiltest.Reply{Status: header.status, Header: header.Header}, resiltest.Reply{}),
					Retry: retry.Config{MaxAttempts: 1},
				})
				start := time.Now()
				get := func(url string, wait time.Duration) {
					resp, err := c.Get(url)
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					require.InDelta(t, wait, time.Since(start), pad)
				}
				get("http://one.test/", 0)
				get("http://two.test/", 0)
				get("http://one.test/", header.wait)
			})
		})
	}
}

// A pause can be as long as a day, and ended before its time.
func TestClientPauseIsEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, standard.ClientConfig{
			Base:  resiltest.NewScript(resiltest.Reply{Status: 503, Header: http.Header{"Retry-After": {"86400"}}}, resiltest.Reply{}),
			Retry: retry.Config{MaxAttempts: 1},
		})
		resp, err := c.Get("http://one.test/")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		_, err = c.Get("http://one.test/")
		require.ErrorIs(t, err, gate.ErrLimited)
		require.Len(t, c.Gate.Holds(), 1)
		require.NoError(t, c.Gate.Resume(t.Context(), "host", "one.test:80"))
		resp, err = c.Get("http://one.test/")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	})
}

// A host that refuses all requests without a wait gets each of the attempts, and its last answer is returned.
func TestClientRefusedWithoutWait(t *testing.T) {
	t.Parallel()
	for name, row := range map[string][2]time.Duration{ // the limits of Total and Attempt
		"by default": {0, 0}, "attempts without a limit": {3 * time.Second, -1}, "attempts as long as all": {30 * time.Second, 30 * time.Second}, "none": {-1, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stub := resiltest.NewScript(resiltest.Reply{Status: http.StatusTooManyRequests})
				c := newClient(t, standard.ClientConfig{Base: stub, Total: timeout.Config{Limit: row[0]}, Attempt: timeout.Config{Limit: row[1]}})
				get := func(status int) time.Duration {
					start := time.Now()
					resp, err := c.Get("http://one.test/")
					require.NoError(t, err)
					require.NoError(t, resp.Body.Close())
					require.Equal(t, status, resp.StatusCode)
					return time.Since(start)
				}
				for n := range 20 {
					require.LessOrEqual(t, get(http.StatusTooManyRequests), 20*time.Second)
					require.Equal(t, 3*(n+1), stub.Calls())
				}
				stub.Set(resiltest.Reply{})
				require.LessOrEqual(t, get(http.StatusOK), 6*time.Second)
			})
		})
	}
}

// Any number of requests that are refused together, and later ones, wait for the end of the pause: no breaker opens.
func TestClientPauseOfMany(t *testing.T) {
	t.Parallel()
	for _, status := range []int{429, 503} {
		for _, own := range []*gate.Gate{nil, core.Must(gate.New(gate.Config{}))} {
			synctest.Test(t, func(t *testing.T) {
				if own != nil {
					own = core.Must(gate.New(gate.Config{}))
				}
				start := time.Now()
				c := newClient(t, standard.ClientConfig{Gate: own, Base: roundTrip(func(r *http.Request) (*http.Response, error) {
					resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}
					switch time.Sleep(50 * time.Millisecond); {
					case time.Since(start) < 100*time.Millisecond:
						resp.StatusCode, resp.Header = status, http.Header{"Retry-After": {"3"}}
					case time.Since(start) < 3*time.Second:
						t.Error("sent inside the pause")
					}
					return resp, nil
				})})
				var all sync.WaitGroup
				for i := range 30 {
					all.Go(func() {
						if i >= 10 {
							time.Sleep(time.Duration(i) * 50 * time.Millisecond)
						}
						resp, err := c.Get("http://one.test/")
						if assert.NoError(t, err) {
							assert.Equal(t, http.StatusOK, resp.StatusCode)
							assert.NoError(t, resp.Body.Close())
						}
					})
				}
				all.Wait()
				require.Less(t, time.Since(start), 10*time.Second)
			})
		}
	}
}

// Refusals use attempts of Retry, unless there is a Gate of one's own. The Client leaves that one open.
func TestClientGate(t *testing.T) {
	t.Parallel()
	refusal, busy := resiltest.Reply{Status: 429, Header: http.Header{"Retry-After": {"1"}}}, resiltest.Reply{Status: 429, Header: http.Header{"Retry-After": {"60"}}}
	for name, row := range map[string]struct {
		gate    *gate.Config
		method  string
		replies []resiltest.Reply
		status  int
		calls   int
		err     error
	}{
		"accepted in time":         {replies: []resiltest.Reply{refusal, refusal, {}}, status: 200, calls: 3},
		"refused for ever":         {replies: []resiltest.Reply{refusal}, status: 429, calls: 3},
		"POST":                     {method: "POST", replies: []resiltest.Reply{refusal}, status: 429, calls: 1},
		"longer than the total":    {replies: []resiltest.Reply{busy}, status: 429, calls: 1},
		"own gate":                 {gate: &gate.Config{}, method: "POST", replies: []resiltest.Reply{refusal, refusal, refusal, {}}, status: 200, calls: 4},
		"own gate that only waits": {gate: &gate.Config{MaxAttempts: 1}, replies: []resiltest.Reply{refusal}, status: 429, calls: 3},
		"own gate that is closed":  {gate: &gate.Config{Name: "closed"}, err: gate.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				script := resiltest.NewScript(row.replies...)
				cfg := standard.ClientConfig{Base: script}
				if row.gate != nil {
					cfg.Gate = core.Must(gate.New(*row.gate))
				}
				if row.err != nil {
					require.NoError(t, cfg.Gate.Close(t.Context()))
				}
				c := newClient(t, cfg)
				req := core.Must(http.NewRequestWithContext(t.Context(), cmp.Or(row.method, http.MethodGet), "http://one.test/", strings.NewReader("text")))
				resp, err := c.Do(req)
				require.ErrorIs(t, err, row.err)
				require.Equal(t, row.calls, script.Calls())
				if err != nil {
					require.ErrorIs(t, err, core.ErrRejected)
					return
				}
				require.Equal(t, row.status, resp.StatusCode)
				require.NoError(t, resp.Body.Close())
				require.NoError(t, c.Close())
				_, err = c.Get("http://two.test/")
				require.Equal(t, cfg.Gate == nil, errors.Is(err, gate.ErrClosed))
			})
		})
	}
}

// Close ends what waits, and what is in flight.
func TestClientCloseInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, standard.ClientConfig{Base: resiltest.NewScript(resiltest.Reply{Status: 429}, resiltest.Reply{Delay: -1})})
		ended := make(chan error)
		for _, host := range []string{"one", "one", "two"} {
			go func() {
				resp, err := c.Get("http://" + host + ".test/")
				if err == nil {
					err = resp.Body.Close()
				}
				ended <- err
			}()
			synctest.Wait()
		}
		time.Sleep(2 * time.Second) // the wait between two attempts is over
		start := time.Now()
		require.NoError(t, c.Close())
		for range 3 {
			require.ErrorIs(t, <-ended, gate.ErrClosed)
		}
		require.Zero(t, time.Since(start))
	})
}

// A client understands what a server of this package says, whichever fields it sets.
func TestClientOfStandardServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pipeline := core.Must(standard.NewServer(standard.ServerConfig{Limit: ratelimit.Config{Limit: ratelimit.FixedWindow(2, 10*time.Second)}}))
		served := 0
		srv := resiltest.Serve(t, resiltest.NewNetwork(), pipeline.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ })))
		c := newClient(t, standard.ClientConfig{Base: srv.Transport()})
		start := time.Now()
		for range 5 {
			resp, err := c.Get("http://one.test/")
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusOK, resp.StatusCode)
		}
		require.InDelta(t, 20*time.Second, time.Since(start), float64(2*time.Second))
		require.Equal(t, 5, served)
	})
}

func TestClientPartsCanBeChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stub := resiltest.NewScript(resiltest.Reply{Status: 500})
		c := newClient(t, standard.ClientConfig{Base: stub, Retry: retry.Config{MaxAttempts: 2}, Breaker: breaker.Config{Failures: 4}})
		get := func(ctx context.Context) (*http.Response, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://one.test/", nil)
			require.NoError(t, err)
			return c.Do(req)
		}
		for range 2 {
			resp, err := get(t.Context())
			require.NoError(t, err)
			require.Equal(t, 500, resp.StatusCode, "the last response is returned as it came")
			require.NoError(t, resp.Body.Close())
		}
		_, err := get(t.Context())
		require.ErrorIs(t, err, breaker.ErrOpen)
		require.Equal(t, 4, stub.Calls())
		require.NoError(t, c.Breaker.For("one.test:80").SetState(breaker.Disabled))
		resp, err := get(c.Retry.Override(t.Context(), func(r *retry.Config) { r.MaxAttempts = 1 }))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 5, stub.Calls())
	})
}

func TestClientFaultsOfTheCaller(t *testing.T) {
	t.Parallel()
	errRead := errors.New("the disk is gone")
	for name, change := range map[string]func(*http.Request){
		"a read fails": func(r *http.Request) { r.Body = io.NopCloser(iotest.ErrReader(errRead)) },
		"with GetBody": func(r *http.Request) {
			r.Body = io.NopCloser(iotest.ErrReader(errRead))
			r.GetBody = func() (io.ReadCloser, error) { return r.Body, nil }
		},
		"it ends early":       func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 10 },
		"newline in a header": func(r *http.Request) { r.Header.Set("X-A", "a\nb") },
		"name of a header":    func(r *http.Request) { r.Header["X A"] = []string{"b"} },
		"method":              func(r *http.Request) { r.Method = "PUT IT" },
		"name of a trailer":   func(r *http.Request) { r.Trailer = http.Header{"X A": nil} },
	} {
		synctest.Test(t, func(t *testing.T) {
			base := &http.Transport{}
			c := newClient(t, standard.ClientConfig{Base: roundTrip(func(req *http.Request) (*http.Response, error) {
				if req.Body == nil {
					return base.RoundTrip(req)
				}
				defer func() { _ = req.Body.Close() }()
				if n, err := io.Copy(io.Discard, req.Body); err != nil || n != max(req.ContentLength, 0) {
					return nil, errors.Join(errors.New("the body is not whole"), err)
				}
				return base.RoundTrip(req)
			})})
			req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPut, "http://a.test/", nil))
			change(req)
			_, err := c.Do(req)
			require.Error(t, err)
			require.Zero(t, c.Breaker.Stats().Failures, "%s: %v", name, err)
			if name != "with GetBody" {
				require.Zero(t, c.Retry.Stats().Retries, "%s: %v", name, err)
			}
		})
	}
}

func TestClientClosesTheBodyOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg      standard.ClientConfig
		reply    resiltest.Reply
		getBody  func() (io.ReadCloser, error)
		cancel   bool
		failure  error
		attempts int
	}{
		"success":       {attempts: 1},
		"reset":         {reply: resiltest.Reply{Reset: true}, failure: syscall.ECONNRESET, attempts: 1},
		"breaker open":  {cfg: standard.ClientConfig{Breaker: breaker.Config{Initial: breaker.ForcedOpen}}, failure: breaker.ErrOpen},
		"canceled":      {cancel: true, failure: context.Canceled},
		"bad settings":  {cfg: standard.ClientConfig{Name: "bad"}, failure: core.ErrConfig},
		"timeout":       {reply: resiltest.Reply{Delay: -1}, failure: timeout.ErrTimeout, attempts: 1},
		"GetBody fails": {reply: resiltest.Reply{Status: 503}, getBody: func() (io.ReadCloser, error) { return nil, io.ErrNoProgress }, attempts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				script := resiltest.NewScript(c.reply)
				tr := resiltest.Serve(t, resiltest.NewNetwork(), script).Transport()
				c.cfg.Base = resiltest.Count(t, tr)
				hc := newClient(t, c.cfg)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancel {
					cancel()
				}
				if name == "bad settings" {
					ctx = hc.Retry.Override(ctx, func(r *retry.Config) { r.MaxAttempts = -1 })
				}
				body := resiltest.NewBody("upload")
				req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://a.test/", body)
				require.NoError(t, err)
				req.GetBody = c.getBody
				resp, err := hc.Transport.RoundTrip(req)
				require.ErrorIs(t, err, c.failure)
				if err == nil {
					require.NoError(t, resp.Body.Close())
				}
				synctest.Wait()
				require.Equal(t, 1, body.Closes())
				require.Equal(t, c.attempts, script.Calls())
			})
		})
	}
}

// noGoroutines fails the test, with their stacks, if goroutines that it started, or that these started, are left at its end. They have a
// label, so those of other tests do not count. Call it first: clean-ups that are registered after it run before the check.
func noGoroutines(t *testing.T) {
	t.Helper()
	pprof.SetGoroutineLabels(pprof.WithLabels(t.Context(), pprof.Labels("test", t.Name())))
	t.Cleanup(func() {
		t.Helper()
		pprof.SetGoroutineLabels(context.Background()) // those of this one
		var left []string
		require.True(t, resiltest.Eventually(func() bool {
			var buf bytes.Buffer
			require.NoError(t, pprof.Lookup("goroutine").WriteTo(&buf, 1))
			left = slices.DeleteFunc(strings.Split(buf.String(), "\n\n"), func(stack string) bool {
				return !strings.Contains(stack, fmt.Sprintf("%q:%q", "test", t.Name()))
			})
			return len(left) == 0
		}), "goroutines are left, with the number of those alike:\n%s", strings.Join(left, "\n\n"))
	})
}

// shouts upgrades a connection, and sends what it got when the client has ended its
// direction.
func shouts(w http.ResponseWriter, _ *http.Request) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n")
	_ = rw.Flush()
	text, _ := bufio.NewReader(rw).ReadString('\n')
	_, _ = io.WriteString(c, text+"!")
}

func TestClientUpgrade(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*standard.ClientConfig){
		"default": func(*standard.ClientConfig) {},
		"a nearer outer limit": func(c *standard.ClientConfig) {
			c.Total, c.Attempt = timeout.Config{Limit: -1}, timeout.Config{Limit: 2 * time.Hour}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := resiltest.Serve(t, resiltest.NewNetwork(), http.HandlerFunc(shouts))
			cfg := standard.ClientConfig{Base: srv.Transport()}
			change(&cfg)
			c := newClient(t, cfg)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			req := core.Must(http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, nil))
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "shout")
			resp, err := c.Do(req)
			require.NoError(t, err, name)
			require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
			both, ok := resp.Body.(io.ReadWriteCloser)
			require.True(t, ok, name)
			_, ok = resp.Body.(interface{ CloseWrite() error })
			require.True(t, ok, "%s: a proxy ends one direction", name)
			time.Sleep(time.Minute) // no limit applies any more
			_, err = io.WriteString(both, "hello\n")
			require.NoError(t, err, name)
			text, err := io.ReadAll(both)
			require.NoError(t, err, name)
			require.Equal(t, "hello\n!", string(text))
			require.NoError(t, both.Close())
			require.EqualValues(t, 1, c.Breaker.Stats().Successes, name)
		})
	}
}

const uploadSize = 64 << 20

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// An upload holds nothing in memory, and is as fast as without us. It is not parallel:
// it counts what the whole process allocates.
func TestClientUpload64MiB(t *testing.T) { //nolint:paralleltest // see above
	noGoroutines(t)
	var got int64
	srv := resiltest.Serve(t, core.Must(net.Listen("tcp", "127.0.0.1:0")), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got, _ = io.Copy(io.Discard, r.Body)
	}))
	plain := http.Client{Transport: srv.Transport()}
	c := newClient(t, standard.ClientConfig{Base: plain.Transport})
	upload := func(hc *http.Client, getBody bool) (took time.Duration, allocated uint64) {
		body := func() io.ReadCloser { return io.NopCloser(io.LimitReader(zeros{}, uploadSize)) }
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, srv.URL, body())
		require.NoError(t, err)
		if getBody {
			req.ContentLength, req.GetBody = uploadSize, func() (io.ReadCloser, error) { return body(), nil }
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		resp, err := hc.Do(req)
		took = time.Since(start)
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.EqualValues(t, uploadSize, got)
		return took, after.TotalAlloc - before.TotalAlloc
	}
	for name, getBody := range map[string]bool{"a stream of unknown length": false, "with GetBody": true} {
		quiettest.Repeat(t, func() error {
			var without, with []time.Duration
			most := uint64(0)
			for range 3 {
				took, _ := upload(&plain, getBody)
				without = append(without, took)
				took, allocated := upload(c.Client, getBody)
				with, most = append(with, took), max(most, allocated)
			}
			ratio := float64(median(without)) / float64(median(with))
			t.Logf("%s: %d bytes allocated, %.0f MiB/s, %.2f of what it is without", name, most, 64/median(with).Seconds(), ratio)
			require.LessOrEqual(t, most, uint64(1<<20), name)
			if ratio < 0.5 {
				return fmt.Errorf("%s: %.2f of what it is without", name, ratio)
			}
			return nil
		})
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func TestClientIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		c := newClient(t, standard.ClientConfig{
			Name: "orders", Registry: registry,
			Base:  resiltest.NewScript(resiltest.Reply{Delay: time.Hour}, resiltest.Reply{}),
			Retry: retry.Config{Backoff: backoff.Constant{Delay: time.Second}},
		})
		collector := core.Must(metrics.New(registry, metrics.Config{}))
		var text bytes.Buffer
		ctx, stop := context.WithCancel(t.Context())
		logged := make(chan error)
		go func() {
			logged <- logs.Run(ctx, registry, slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})), logs.Config{Calls: true})
		}()
		synctest.Wait()
		resp, err := c.Get("http://one.test/")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		stop()
		require.NoError(t, <-logged)

		all, page := prometheus.NewPedanticRegistry(), httptest.NewRecorder()
		require.NoError(t, all.Register(collector))
		promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		for _, want := range []string{
			`retry_calls_total{name="orders",result="success",retried="true"} 1`,
			`retry_backoff_seconds_sum{name="orders",source="backoff"} 1`,
			`timeout_calls_total{name="orders-attempt",result="timeout"} 1`,
			`timeout_calls_total{name="orders-total",result="success"} 1`,
			`timeout_limit_seconds{name="orders-attempt"} 10`,
			`registry_entries{kind="timeout"} 2`,
			`breaker_calls_total{name="orders",result="failure"} 1`,
		} {
			require.Contains(t, page.Body.String(), "\nresilience_"+want+"\n")
		}
		require.Contains(t, text.String(), `msg="attempt failed, a retry follows" kind=retry name=orders`)
		require.Contains(t, text.String(), `kind=timeout name=orders-attempt`)
	})
}
