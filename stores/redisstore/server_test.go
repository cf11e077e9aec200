package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how the server names scripts
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/redisserver"
	"github.com/gresil/gresil/internal/redistest"
)

// A server is a redis-server of a test.
type server struct{ *redisserver.Server }

// startServer starts a redis-server on a port of its own, which ends with the test.
func startServer(tb testing.TB, args ...string) server {
	tb.Helper()
	return server{redistest.Start(tb, args...)}
}

func (s server) client(tb testing.TB, change ...func(*redis.Options)) *redis.Client {
	tb.Helper()
	opt := &redis.Options{Addr: s.Addr}
	for _, f := range change {
		f(opt)
	}
	c := redis.NewClient(opt)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// keptLonger is how much longer than they say the scripts of a virtual client keep keys.
const keptLonger = time.Hour

// virtual returns a client for tests that set the clock of a store. The server would expire keys by
// its own clock, so every script that the client sends keeps them longer.
func (s server) virtual(tb testing.TB) *redis.Client {
	tb.Helper()
	c := s.client(tb, func(o *redis.Options) { o.ContextTimeoutEnabled = true }) // a store uses it as it is, with its hooks
	c.AddHook(keepsKeys{})
	return c
}

// A keepsKeys is a hook that replaces the scripts of a store by those that keep keys longer.
type keepsKeys struct{}

func (keepsKeys) DialHook(next redis.DialHook) redis.DialHook { return next }

func (keepsKeys) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		keepKeys(cmd)
		return next(ctx, cmd)
	}
}

func (keepsKeys) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			keepKeys(cmd)
		}
		return next(ctx, cmds)
	}
}

func keepKeys(cmd redis.Cmder) {
	args := cmd.Args()
	if len(args) < 2 {
		return
	}
	if kept, ok := scriptsThatKeep()[args[0]][args[1]]; ok {
		args[1] = kept
	}
}

// scriptsThatKeep are the scripts that keep keys longer, by the argument of EVALSHA or EVAL that stands
// for the original.
var scriptsThatKeep = sync.OnceValue(func() map[any]map[any]string { //nolint:gochecknoglobals // a constant
	shas, texts := map[any]string{}, map[any]string{}
	add := func(s *script) {
		const expires = "'PX', "
		if !strings.Contains(s.text, expires) {
			panic("no key expires")
		}
		text := strings.ReplaceAll(s.text, expires, expires+strconv.FormatInt(keptLonger.Milliseconds(), 10)+" + ")
		sum := sha1.Sum([]byte(text)) //nolint:gosec // see above
		shas[s.arg], texts[s.text] = hex.EncodeToString(sum[:]), text
	}
	add(bucketScript())
	add(windowScript())
	add(gateScript())
	for set := uint(1); set < 1<<len(algorithms); set++ {
		add(accountScript(set))
	}
	return map[any]map[any]string{"evalsha": shas, "eval": texts}
})

// patient is a Timeout for tests that share a machine.
const patient = 10 * time.Second

func newStore(tb testing.TB, client redis.UniversalClient, cfg Config) *Store {
	tb.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = patient
	}
	s, err := New(client, cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// pause keeps a server from deciding until resume is called, however slow the machine is. It waits until
// nothing is under way in some lanes.
func pause(tb testing.TB, client *redis.Client, idle ...*lane) (resume func()) {
	tb.Helper()
	for _, l := range idle {
		require.Eventually(tb, func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return !l.busy
		}, patient, time.Millisecond)
	}
	require.NoError(tb, client.Do(context.Background(), "client", "pause", "600000", "write").Err())
	return func() {
		tb.Helper()
		require.NoError(tb, client.Do(context.Background(), "client", "unpause").Err())
	}
}

// queued reports whether a lane has a batch under way and so many requests that wait.
func queued(l *lane, n int) func() bool {
	return func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.busy && len(l.queue) == n
	}
}

func open(tb testing.TB, s ratelimit.Store, name string) limits.Table {
	tb.Helper()
	table, err := s.Open(name)
	require.NoError(tb, err)
	return table
}

func take(tb testing.TB, t limits.Table, key string, l ratelimit.Limit, n int64) limits.Result {
	tb.Helper()
	id, err := t.Plan(limits.Limit(l).Specs())
	require.NoError(tb, err)
	r, err := t.Apply(context.Background(), key, id, limits.Op{Cost: n})
	require.NoError(tb, err)
	return r
}

func planned(tb testing.TB, t limits.Table, l ratelimit.Limit) *limits.Plan {
	tb.Helper()
	p, err := t.Plan(limits.Limit(l).Specs())
	require.NoError(tb, err)
	return p
}
