package logs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/internal/ratelimittest"
	"github.com/gresil/gresil/logs"
	"github.com/gresil/gresil/outbound/gate"
	plugins "github.com/gresil/gresil/plugins/breaker"
)

var errDown = errors.New("down")

func fail(context.Context) (int, error)    { return 0, errDown }
func succeed(context.Context) (int, error) { return 1, nil }

// A book collects records as lines of text, without their time.
type book struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// read returns the lines since it was called last.
func (b *book) read() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := strings.TrimSuffix(b.text.String(), "\n")
	b.text.Reset()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func (b *book) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

// newBook attaches to a registry, and closes at the end.
func newBook(t *testing.T, registry *core.Registry, level slog.Level, cfg logs.Config) (*book, *logs.Running) {
	t.Helper()
	b := new(book)
	a := logs.Begin(registry, b.logger(level), cfg)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return b, a
}

func TestRetryCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		p := core.Must(retry.New(retry.Config{
			Name: "api", Registry: registry, MaxAttempts: 2, Backoff: backoff.Constant{Delay: time.Second},
			RetryIf: func(err error) bool { return err == errDown }, //nolint:errorlint // it is the very one
		}))
		b, _ := newBook(t, registry, slog.LevelDebug, logs.Config{Calls: true})
		_, _ = retry.Do(t.Context(), p, fail)
		require.Equal(t, []string{
			`level=DEBUG msg="attempt failed, a retry follows" kind=retry name=api retry=1 elapsed=0s err=down delay=1s source=backoff`,
			`level=DEBUG msg="retries exhausted" kind=retry name=api retry=1 elapsed=1s err=down`,
		}, b.read())
		attempts := 0
		_, _ = retry.Do(t.Context(), p, func(context.Context) (int, error) {
			attempts++
			if attempts == 1 {
				return 0, errDown
			}
			return 1, nil
		})
		require.Equal(t, `level=DEBUG msg="retry succeeded" kind=retry name=api retry=1 elapsed=1s`, b.read()[1])
		_, _ = retry.Do(t.Context(), p, func(context.Context) (int, error) { return 0, errors.New("other") })
		require.Equal(t, []string{`level=DEBUG msg="error is not retried" kind=retry name=api retry=0 elapsed=0s err=other`}, b.read())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		_, _ = retry.Do(ctx, p, fail)
		require.Equal(t, []string{`level=DEBUG msg="retry suppressed" kind=retry name=api retry=0 elapsed=0s err=down reason=deadline delay=1s`}, b.read())
	})
}

func TestBreakerStatesAndCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		br := core.Must(breaker.New(breaker.Config{Name: "db", Registry: registry, Window: 2, Trials: 1, OpenDelay: backoff.Constant{Delay: time.Minute}}))
		group := core.Must(breaker.NewGroup(breaker.Config{Name: "hosts", Registry: registry}))
		few, _ := newBook(t, registry, slog.LevelDebug, logs.Config{})
		all, _ := newBook(t, registry, slog.LevelDebug, logs.Config{Calls: true, Keys: true})
		for range 3 {
			_, _ = breaker.Do(t.Context(), br, fail)
		}
		const opened = `level=INFO msg="circuit breaker changed its state" kind=breaker name=db from=closed to=open reason="2 of 2 calls failed" open_for=1m0s`
		require.Equal(t, []string{opened}, few.read())
		require.ElementsMatch(t, []string{
			`level=DEBUG msg="circuit breaker recorded a call" kind=breaker name=db state=closed outcome=failure duration=0s slow=false`,
			`level=DEBUG msg="circuit breaker recorded a call" kind=breaker name=db state=closed outcome=failure duration=0s slow=false`,
			opened,
			`level=DEBUG msg="circuit breaker rejected a call" kind=breaker name=db state=open retry_after=1m0s`,
		}, all.read())
		time.Sleep(time.Minute)
		_, _ = breaker.Do(t.Context(), br, succeed)
		require.Len(t, few.read(), 2)
		all.read()
		require.NoError(t, group.For("example.com").SetState(breaker.ForcedOpen))
		const forced = `level=INFO msg="circuit breaker changed its state" kind=breaker name=hosts%s from=closed to=forced_open reason="set by hand" open_for=0s`
		require.Equal(t, []string{fmt.Sprintf(forced, "")}, few.read(), "a key is there on request")
		require.Equal(t, []string{fmt.Sprintf(forced, " key=example.com")}, all.read())
	})
}

func TestLimiterAndTimeoutCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		l := core.Must(ratelimit.New(ratelimit.Config{Name: "api", Registry: registry, Limit: ratelimit.TokenBucket(1, 10*time.Second, 2), MaxWait: -1}))
		slow := core.Must(timeout.New(timeout.Config{Name: "slow", Registry: registry, Limit: time.Second}))
		few, _ := newBook(t, registry, slog.LevelDebug, logs.Config{Keys: true})
		all, _ := newBook(t, registry, slog.LevelDebug, logs.Config{Calls: true})
		for range 3 {
			_, _ = l.Take(t.Context(), "secret", 1)
		}
		_, _ = l.Wait(t.Context(), "secret", 1)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		_, _ = l.Wait(ctx, "secret", 1)
		require.Equal(t, []string{
			`level=DEBUG msg="permits granted" kind=ratelimit name=api remaining=1 waited=0s cost=1`,
			`level=DEBUG msg="permits granted" kind=ratelimit name=api remaining=0 waited=0s cost=1`,
			`level=DEBUG msg="permits refused" kind=ratelimit name=api limit=2 remaining=0 retry_after=10s cost=1`,
			`level=DEBUG msg="waiting for permits" kind=ratelimit name=api cost=1`,
			`level=DEBUG msg="permits granted" kind=ratelimit name=api remaining=0 waited=10s cost=1`,
			`level=DEBUG msg="waiting for permits" kind=ratelimit name=api cost=1`,
			`level=DEBUG msg="wait for permits canceled" kind=ratelimit name=api waited=3s err="context canceled" cost=1`,
		}, all.read())
		_, err := timeout.Do(t.Context(), slow, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
		require.Equal(t, []string{fmt.Sprintf(`level=DEBUG msg="timed out" kind=timeout name=slow limit=1s elapsed=1s err=%q`, err.Error())}, all.read())
		require.Nil(t, few.read(), "no call is logged unless that is asked for")
	})
}

func TestCounters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		g := core.Must(breaker.NewGroup(breaker.Config{Name: "hosts", Registry: registry, MaxKeys: 1}))
		require.NoError(t, g.For("a").SetState(breaker.Disabled))
		g.For("b")
		b, a := newBook(t, registry, slog.LevelInfo, logs.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		g.For("b")
		g.For("c")
		require.NoError(t, a.Run(ctx))
		warned := `level=WARN msg="calls shared a breaker, since the group is full" kind=breaker name=hosts count=`
		require.Equal(t, []string{warned + "2"}, b.read(), "what was before is no news")
		g.For("d")
		require.NoError(t, a.Close())
		require.Equal(t, []string{warned + "1"}, b.read(), "what is left is told at the end")
		require.NoError(t, g.For("a").SetState(breaker.Open))
		require.NoError(t, a.Close())
		require.Nil(t, b.read(), "it is closed")
	})
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	b, a := newBook(t, registry, slog.LevelDebug, logs.Config{Calls: true})
	p := core.Must(retry.New(retry.Config{Name: "x", Registry: registry, MaxAttempts: 1}))
	_, _ = retry.Do(t.Context(), p, fail)
	require.NoError(t, p.SetConfig(retry.Config{MaxAttempts: 2}))
	require.Error(t, p.SetConfig(retry.Config{MaxAttempts: -1}))
	require.NoError(t, p.Close())
	_, _ = retry.Do(t.Context(), p, succeed)
	require.Equal(t, []string{
		`level=DEBUG msg="instance added" kind=retry name=x`,
		`level=DEBUG msg="retries exhausted" kind=retry name=x retry=0 elapsed=0s err=down`,
		`level=INFO msg="config replaced" kind=retry name=x`,
		`level=WARN msg="config refused, the old one is kept" kind=retry name=x err="retry.Config.MaxAttempts = -1: must be >= 0 (0 means 3)" count=1`,
		`level=DEBUG msg="instance removed" kind=retry name=x`,
	}, dropElapsed(b.read()))
	require.NoError(t, a.Close())
	core.Must(retry.New(retry.Config{Name: "y", Registry: registry}))
	require.Nil(t, b.read())
}

// A host is no secret, another key is.
func TestHostsAndKeys(t *testing.T) {
	t.Parallel()
	for _, keys := range []bool{false, true} {
		registry := &core.Registry{}
		b, _ := newBook(t, registry, slog.LevelInfo, logs.Config{Keys: keys})
		hosts := core.Must(breaker.NewGroup(breaker.Config{Name: "hosts", Registry: registry}))
		plugins.NewClient(hosts, plugins.ClientOptions{})
		accounts := core.Must(breaker.NewGroup(breaker.Config{Name: "accounts", Registry: registry}))
		require.NoError(t, hosts.For("api.example.com").OpenFor(time.Hour))
		require.NoError(t, accounts.For("secret").OpenFor(time.Hour))
		lines := b.read()
		require.Contains(t, lines[0], `msg="circuit breaker changed its state" kind=breaker name=hosts host=api.example.com from=closed to=open reason="set by hand"`)
		require.Equal(t, keys, strings.Contains(lines[1], " key=secret "), lines[1])
	}
}

// The error of a rejection, which a retry logs, contains a host, but no other key. An Override of Key counts too.
func TestKeysInErrors(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		opts     plugins.ClientOptions
		override func(*plugins.ClientOptions)
		want     string
	}{
		"host":            {plugins.ClientOptions{}, nil, "api.example.com: "},
		"host, Override":  {plugins.ClientOptions{}, func(o *plugins.ClientOptions) { o.Key = nil }, "api.example.com: "},
		"Key":             {plugins.ClientOptions{Key: secret}, nil, ""},
		"Key of Override": {plugins.ClientOptions{}, func(o *plugins.ClientOptions) { o.Key = secret }, ""},
	} {
		for _, registered := range []bool{true, false} {
			registry, of := &core.Registry{}, (*core.Registry)(nil)
			b, _ := newBook(t, registry, slog.LevelDebug, logs.Config{Calls: true})
			if registered {
				of = registry
			}
			c := plugins.NewClient(core.Must(breaker.NewGroup(breaker.Config{Registry: of, Initial: breaker.ForcedOpen})), row.opts)
			text := rejected(c.Override(t.Context(), row.override), t, registry, c, b)
			require.Contains(t, text, `err="breaker: default: `+row.want+`forced open"`, name)
			require.NotContains(t, text, "secret")
		}
	}
}

func secret(*http.Request) (string, bool) { return "secret", true }

// rejected sends a request through a retry and a breaker that is open, and returns what is logged.
func rejected(ctx context.Context, t *testing.T, registry *core.Registry, c *plugins.Client, b *book) string {
	t.Helper()
	policy := core.Must(retry.New(retry.Config{Registry: registry}))
	_, err := retry.Do(ctx, policy, func(ctx context.Context) (*http.Response, error) {
		return c.Transport(nil).RoundTrip(core.Must(http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.com/", nil)))
	})
	require.ErrorIs(t, err, breaker.ErrOpen)
	return strings.Join(b.read(), "\n")
}

// dropElapsed makes times 0, where the clock is real.
func dropElapsed(lines []string) []string {
	for i, line := range lines {
		if before, after, ok := strings.Cut(line, "elapsed="); ok {
			_, after, _ = strings.Cut(after, " ")
			lines[i] = before + "elapsed=0s " + after
		}
	}
	return lines
}

// nosy is a handler that uses what it logs.
type nosy struct {
	slog.Handler
	use func()
}

func (n nosy) Handle(ctx context.Context, r slog.Record) error {
	n.use()
	return n.Handler.Handle(ctx, r)
}
func (n nosy) WithAttrs(a []slog.Attr) slog.Handler { return nosy{n.Handler.WithAttrs(a), n.use} }

func TestHandlerCallsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a deadlock fails it
		registry := &core.Registry{}
		store := &ratelimittest.Failing{Store: &ratelimittest.Memory{}}
		store.Down()
		l := core.Must(ratelimit.New(ratelimit.Config{Name: "l", Registry: registry, Store: store}))
		br := core.Must(breaker.New(breaker.Config{Name: "db", Registry: registry}))
		var a *logs.Running
		depth, used := 0, 0
		handler := nosy{new(book).logger(slog.LevelDebug).Handler(), func() {
			if depth > 0 || a == nil || used == 20 { // what it does is logged in turn
				return
			}
			depth++
			defer func() { depth-- }()
			used++
			_ = br.State()
			_ = br.SetState(breaker.HalfOpen)
			_ = br.SetState(breaker.Closed)
			_, _ = l.Take(t.Context(), "k", 1)
			x := core.Must(retry.New(retry.Config{Name: fmt.Sprint("x", used), Registry: registry}))
			for range registry.All() {
				break
			}
			require.NoError(t, x.Close())
		}}
		a = logs.Begin(registry, slog.New(handler), logs.Config{Calls: true})
		require.NoError(t, br.OpenFor(time.Minute))
		_, _ = l.Take(t.Context(), "k", 1)
		require.NoError(t, br.Close())
		require.GreaterOrEqual(t, used, 3)
		require.NoError(t, a.Close())
	})
}

func TestRunErrors(t *testing.T) {
	t.Parallel()
	err := logs.Run(t.Context(), nil, nil, logs.Config{})
	require.EqualError(t, err, "logs.Run registry = <nil>: must be the registry of the mechanisms\nlogs.Run logger = <nil>: must be a logger")
	require.ErrorIs(t, err, core.ErrConfig)
}

func TestConcurrentInstances(t *testing.T) {
	t.Parallel()
	registry := &core.Registry{}
	b, a := newBook(t, registry, slog.LevelInfo, logs.Config{Calls: true})
	ctx, cancel := context.WithCancel(t.Context())
	var wg, runs sync.WaitGroup
	runs.Go(func() { _ = a.Run(ctx) })
	for i := range 8 {
		wg.Go(func() {
			for n := range 50 {
				br, err := breaker.New(breaker.Config{Name: fmt.Sprint(i, "-", n), Registry: registry, Window: 2})
				if err != nil {
					t.Error(err)
					return
				}
				for range 3 {
					_, _ = breaker.Do(ctx, br, fail)
				}
				_ = br.Close()
			}
		})
	}
	wg.Wait()
	cancel()
	runs.Wait()
	// Who adds while another goroutine tells of a change is attached by that one, which
	// may be too late.
	told := map[string]int{}
	for _, line := range b.read() {
		told[line]++
	}
	if len(told) == 0 || len(told) > 8*50 {
		t.Error(len(told), "breakers opened")
	}
	for line, n := range told {
		if n > 1 {
			t.Error(n, "times", line)
		}
	}
}

var errSlowDown = errors.New("slow down")

// A hold is one line for the refusals of calls that were in flight together, and one when calls are made again.
func TestGate(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		cfg  logs.Config
		want string
	}{
		"changes of the whole": {logs.Config{}, ""},
		"keys":                 {logs.Config{Keys: true}, " key=k"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				registry := &core.Registry{}
				ads := core.Must(gate.New(gate.Config{
					Name: "ads", Registry: registry, Limits: []gate.Limit{{Name: "account", Key: gate.ByCall}},
					Classify: func(_ *http.Response, err error) gate.Signal {
						return gate.Signal{Limited: errors.Is(err, errSlowDown)}
					},
				}))
				b, _ := newBook(t, registry, slog.LevelInfo, row.cfg)
				var group sync.WaitGroup
				for _, ms := range []int{1000, 1100, 1200, 5000} {
					group.Go(func() {
						n := 0
						require.NoError(t, ads.Do(t.Context(), gate.Call{Keys: map[string]string{"account": "k"}}, func(context.Context) error {
							if n++; n == 1 {
								time.Sleep(time.Duration(ms) * time.Millisecond)
								return errSlowDown
							}
							return nil
						}))
					})
				}
				group.Wait()
				require.NoError(t, ads.Close(t.Context()))
				lines := b.read()
				require.Len(t, lines, 3)
				for i, text := range []string{
					`calls are held back" kind=gate name=ads%s until=2000-01-01T00:00:16\.\d+Z pause=15\.\d+s limit=account`,
					`calls are held back" kind=gate name=ads%s until=2000-01-01T00:00:20\.\d+Z pause=15\.\d+s limit=account`,
					`calls are made again" kind=gate name=ads%s held_until=2000-01-01T00:00:20\.\d+Z limit=account`,
				} {
					require.Regexp(t, "^level=INFO msg=\""+fmt.Sprintf(text, row.want)+"$", lines[i])
				}
				require.EqualValues(t, 2, ads.Stats().Holds)
			})
		})
	}
}
