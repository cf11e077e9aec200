package logs_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/event"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/logs"
)

// A census is a handler that notes the messages, and those without kind or name.
type census struct {
	mu      *sync.Mutex
	seen    map[string]bool
	unnamed map[string]bool
	attrs   []slog.Attr
}

func (*census) Enabled(context.Context, slog.Level) bool { return true }

func (c *census) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[r.Message] = true
	values := map[string]int{}
	count := func(a slog.Attr) bool {
		if a.Value.String() != "" {
			values[a.Key]++
		}
		return true
	}
	for _, a := range c.attrs {
		count(a)
	}
	r.Attrs(count)
	if values["kind"] != 1 || values["name"] != 1 {
		c.unnamed[r.Message] = true
	}
	return nil
}

func (c *census) WithAttrs(attrs []slog.Attr) slog.Handler {
	d := *c
	d.attrs = append(slices.Clone(c.attrs), attrs...)
	return &d
}

func (c *census) WithGroup(string) slog.Handler { return c }

// messages returns the messages in the source of the package.
func messages(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	message := regexp.MustCompile(`(?:panicked = |core\.Step\{Text: |moment\(|\.count\(|\.(?:write|record|LogAttrs)\(ctx, slog\.Level\w+, |\.(?:Debug|Info)Context\(ctx, )"([^"]+)"`)
	found := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range message.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func TestEveryRecordHasKindAndName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &census{mu: new(sync.Mutex), seen: map[string]bool{}, unnamed: map[string]bool{}}
		registry := &core.Registry{}
		a := core.Must(logs.New(registry, slog.New(c), logs.Config{Calls: true}))
		ctx := t.Context()
		registry.Subscribe(func(core.RegistryEvent) { panic("subscriber") })

		p := core.Must(retry.New(retry.Config{Name: "r", Registry: registry, Backoff: backoff.Constant{Wait: time.Second}, RetryIf: func(err error) bool { return err == errDown }, Hooks: retry.Hooks{ //nolint:errorlint // it is the very one
			Exhausted: func(context.Context, retry.Info) { panic("hook") },
		}}))
		_, _ = retry.Do(ctx, p, fail)
		failures := 0
		_, _ = retry.Do(ctx, p, func(context.Context) (int, error) {
			if failures++; failures == 1 {
				return 0, errDown
			}
			return 1, nil
		})
		_, _ = retry.Do(ctx, p, func(context.Context) (int, error) { return 0, errors.New("other") })
		short, cancel := context.WithTimeout(ctx, time.Second/2)
		_, _ = retry.Do(short, p, fail)
		cancel()

		b := core.Must(breaker.New(breaker.Config{Name: "b", Registry: registry, Window: 1}))
		_, _ = breaker.Do(ctx, b, fail)
		_, _ = breaker.Do(ctx, b, fail)
		b.Reset()
		measuring := core.Must(breaker.New(breaker.Config{Name: "m", Registry: registry, Window: 1, Initial: breaker.MetricsOnly}))
		_, _ = breaker.Do(ctx, measuring, fail)
		g := core.Must(breaker.NewGroup(breaker.Config{Name: "g", Registry: registry}, 1))
		require.NoError(t, g.Get("a").SetState(breaker.Disabled))
		g.Get("b")

		l := core.Must(ratelimit.New(ratelimit.Config{Name: "l", Registry: registry, Limit: ratelimit.TokenBucket(1, time.Hour, 1), MaxWait: -1, MaxKeys: 1}))
		_, _ = l.Take(ctx, "k", 1)
		_, _ = l.Take(ctx, "k", 1)
		short, cancel = context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		_, _ = l.Wait(short, "k", 1)
		for i := range 1000 {
			_, _ = l.Take(ctx, string(rune('a'+i)), 1)
		}
		require.NotZero(t, l.Stats().Evicted)
		store := &flakyStore{Store: core.Must(ratelimit.NewMemory(0))}
		shared := core.Must(ratelimit.New(ratelimit.Config{Name: "s", Registry: registry, Store: store}))
		store.down.Store(true)
		_, _ = shared.Take(ctx, "k", 1)
		store.down.Store(false)
		_, _ = shared.Take(ctx, "k", 1)

		limit := core.Must(timeout.New(timeout.Config{Name: "t", Registry: registry, Limit: time.Second}))
		_, _ = timeout.Do(ctx, limit, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() })

		hold := core.Must(cooldown.New(cooldown.Config{Name: "c", Registry: registry, MaxKeys: 1}))
		hold.Hold(ctx, "k", time.Second)
		permit, err := hold.Acquire(ctx, "k")
		require.NoError(t, err)
		permit.Done(core.Success)
		hold.Hold(ctx, "k", time.Hour)
		_, _ = hold.Acquire(ctx, "k")
		hold.Hold(ctx, "other", time.Hour)
		var holds holdStore
		core.Must(cooldown.New(cooldown.Config{Name: "h", Registry: registry, Store: &holds}))
		holds.listener.Failed(errors.New("no server"))
		holds.listener.Recovered()

		full := core.Must(bulkhead.New(bulkhead.Config{Name: "f", Registry: registry, Limit: 2, Backoff: 0.5, MaxWait: time.Second}))
		call, err := full.AcquireN(ctx, "k", 2)
		require.NoError(t, err)
		_, _ = full.Acquire(ctx, "k")
		time.AfterFunc(time.Millisecond, func() { call.Done(core.Failure) })
		waited, err := full.Acquire(ctx, "k")
		require.NoError(t, err)
		waited.Done(core.Success)

		var slots slotStore
		sharing := core.Must(bulkhead.New(bulkhead.Config{Name: "b", Registry: registry, Store: &slots}))
		_, err = sharing.Acquire(ctx, "k")
		require.ErrorIs(t, err, bulkhead.ErrStore)
		slot, err := sharing.Acquire(ctx, "k")
		require.NoError(t, err)
		slots.lost(nil)
		slot.Done(core.Success)

		audit := core.Must(event.New[int](1))
		require.NoError(t, registry.Add("event", "audit", audit))
		audit.Add(1)
		audit.Add(2)
		require.NoError(t, registry.Add("fake", "f", new(fake)))
		require.NoError(t, core.SetConfig(registry, "fake", "f", 1))
		require.Error(t, core.SetConfig(registry, "fake", "f", -1))
		_, err = registry.Replace("fake", "f", &fake{max: 1})
		require.NoError(t, err)
		require.NoError(t, limit.Close())
		require.NoError(t, a.Close())

		require.Equal(t, messages(t), slices.Sorted(maps.Keys(c.seen)), "every message was logged")
		require.Empty(t, c.unnamed)
	})
}

// A slotStore is a store of a bulkhead that fails at first.
type slotStore struct{ lost func(error) }

func (s *slotStore) OpenBulkhead(string) (bulkhead.Table, error) { return s, nil }

func (s *slotStore) Acquire(_ context.Context, r bulkhead.Request) (func(), error) {
	if s.lost == nil {
		s.lost = r.Lost
		return nil, errors.New("no server")
	}
	s.lost = r.Lost
	return func() {}, nil
}

// A holdStore is a store that fails when its listener is called.
type holdStore struct {
	cooldown.Table

	listener cooldown.Listener
}

func (s *holdStore) OpenCooldown(_ string, l cooldown.Listener) (cooldown.Table, error) {
	s.listener = l
	return s, nil
}
