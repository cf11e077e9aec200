package archtest

import (
	"cmp"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/core/bulkhead"
	"github.com/gresil/gresil/core/cooldown"
	"github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/core/timeout"
	"github.com/gresil/gresil/dash"
	"github.com/gresil/gresil/metrics"
	"github.com/gresil/gresil/outbound/batch"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/outbound/jobs"
	"github.com/gresil/gresil/outbound/jobs/asynqjobs"
	"github.com/gresil/gresil/outbound/pace"
	breakers "github.com/gresil/gresil/plugins/breaker"
	limits "github.com/gresil/gresil/plugins/ratelimit"
	retries "github.com/gresil/gresil/plugins/retry"
	timeouts "github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
	"github.com/gresil/gresil/standard"
	"github.com/gresil/gresil/stores/denycache"
	"github.com/gresil/gresil/stores/redisstore"
	"github.com/gresil/gresil/stores/share"
)

// exported returns the functions New… of the packages that users import, as "core/retry.New",
// and the packages of core whose files can start no goroutine and dial nothing.
func exported(t *testing.T) (found []string, passive map[string]bool) {
	t.Helper()
	const root = "../.."
	passive = map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && slices.Contains([]string{"internal", "bench", "tools", "examples", ".git"}, d.Name()) {
			return cmp.Or(err, fs.SkipDir)
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg, _ := filepath.Rel(root, filepath.Dir(path))
		pkg = filepath.ToSlash(pkg)
		if _, seen := passive[pkg]; !seen {
			passive[pkg] = strings.HasPrefix(pkg, "core/")
		}
		passive[pkg] = passive[pkg] && isPassive(file)
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "New") {
				found = append(found, pkg+"."+f.Name.Name)
			}
		}
		return nil
	}))
	slices.Sort(found)
	return found, passive
}

// isPassive reports whether a file has no go statement, no call of a method or function that
// starts a goroutine, and no import of net.
func isPassive(file *ast.File) bool {
	passive := true
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			passive = false
		case *ast.SelectorExpr:
			passive = passive && n.Sel.Name != "Go" && n.Sel.Name != "AfterFunc"
		case *ast.ImportSpec:
			passive = passive && n.Path.Value != `"net"` && !strings.HasPrefix(n.Path.Value, `"net/`)
		}
		return passive
	})
	return passive
}

func TestIsPassive(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"func New() {}":                             true,
		"func New() { go run() }":                   false,
		"func New() { wg.Go(run) }":                 false,
		"func New() { time.AfterFunc(1, run) }":     false,
		"import \"net/http\"; func New() { get() }": false,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p; "+code, 0)
		require.NoError(t, err)
		require.Equal(t, want, isPassive(file), code)
	}
}

// Not parallel: it counts the goroutines of the process.
func TestNoConstructorStartsAGoroutineOrDials(t *testing.T) {
	var dials atomic.Int64
	offline := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, errors.New("no network here")
	}})
	t.Cleanup(func() { require.NoError(t, offline.Close()) })
	registry := &core.Registry{}
	var store ratelimit.Store // the last one made
	check := func(_ any, err error) error { return err }
	offlineStore := func(mode redisstore.Mode) *redisstore.Store {
		return core.Must(redisstore.New(offline, redisstore.Config{Mode: mode}))
	}
	constructors := map[string]func() error{
		"client.New":            func() error { client.New(nil, retries.NewClient(nil, retries.ClientOptions{})); return nil },
		"client.NewReplay":      func() error { client.NewReplay(&http.Request{}, 10); return nil },
		"standard.NewClient":    func() error { return check(standard.NewClient(standard.ClientConfig{})) },
		"standard.NewServer":    func() error { return check(standard.NewServer(standard.ServerConfig{})) },
		"core.NewPipeline":      func() error { return check(core.NewPipeline(core.Must(retry.New(retry.Config{})))) },
		"core/breaker.New":      func() error { return check(breaker.New(breaker.Config{Registry: registry})) },
		"core/breaker.NewGroup": func() error { return check(breaker.NewGroup(breaker.Config{})) },
		"core/bulkhead.New":     func() error { return check(bulkhead.New(bulkhead.Config{Registry: registry})) },
		"core/cooldown.New":     func() error { return check(cooldown.New(cooldown.Config{Registry: registry})) },
		"core/ratelimit.New":    func() error { return check(ratelimit.New(ratelimit.Config{Registry: registry})) },
		"core/retry.New":        func() error { return check(retry.New(retry.Config{Registry: registry})) },
		"core/retry.NewBudget":  func() error { return check(retry.NewBudget(0.2, 3)) },
		"core/timeout.New":      func() error { return check(timeout.New(timeout.Config{Registry: registry})) },
		"dash.New":              func() error { return check(dash.New(registry, dash.Config{})) },
		"metrics.New":           func() error { return check(metrics.New(registry, metrics.Config{Durations: true})) },
		"outbound/batch.New": func() error {
			return check(batch.New(batch.Config[int, int]{Name: "batch", Registry: registry, Send: func(context.Context, string, []int) ([]batch.Result[int], error) { return nil, nil }}))
		},
		"outbound/gate.New": func() error { return check(gate.New(gate.Config{Registry: registry})) },
		"outbound/gate.NewPool": func() error {
			g, err := gate.New(gate.Config{Name: "pool"})
			if err != nil {
				return err
			}
			return check(gate.NewPool(g, gate.PoolConfig[int, int]{Dial: func(context.Context, int) (int, error) { return 0, nil }}))
		},
		"outbound/jobs.New":           func() error { return check(jobs.New(jobs.Config{Registry: registry})) },
		"outbound/jobs/asynqjobs.New": func() error { return check(asynqjobs.New(offline, asynqjobs.Config{})) },
		"outbound/pace.New": func() error {
			return check(pace.New(pace.Config{Name: "pace", Registry: registry, Rates: []pace.Rate{{Calls: 1, Per: time.Second}}, Store: offlineStore(redisstore.Coalesced)}))
		},
		"plugins/breaker.NewClient": func() error { breakers.NewClient(nil, breakers.ClientOptions{}); return nil },
		"plugins/breaker.NewGroup":  func() error { return check(breakers.NewGroup(breakers.Config{})) },
		"plugins/breaker.NewServer": func() error { breakers.NewServer(nil, breakers.ServerOptions{}); return nil },
		"plugins/ratelimit.New": func() error {
			return check(limits.New(limits.Config{Name: "shared", Store: store, OnStoreError: limits.Local}))
		},
		"plugins/ratelimit.NewStore": func() error { limits.NewStore(nil); return nil },
		"plugins/ratelimit.NewServer": func() error {
			return check(limits.NewServer(nil, limits.ServerOptions{Routes: []limits.Route{{Pattern: "/a"}}}))
		},
		"plugins/retry.New":         func() error { return check(retries.New(retries.Config{})) },
		"plugins/retry.NewClient":   func() error { retries.NewClient(nil, retries.ClientOptions{}); return nil },
		"plugins/retry.NewBudget":   func() error { return check(retries.NewBudget(0.2, 3)) },
		"plugins/timeout.New":       func() error { return check(timeouts.New(timeouts.Config{})) },
		"plugins/timeout.NewClient": func() error { timeouts.NewClient(nil, timeouts.ClientOptions{}); return nil },
		"plugins/timeout.NewServer": func() error { timeouts.NewServer(nil, timeouts.ServerOptions{}); return nil },
		"server.New":                func() error { return check(server.New(breakers.NewServer(nil, breakers.ServerOptions{}))) },
		"stores/denycache.New":      func() error { return check(denycache.New(offlineStore(redisstore.Strict), denycache.Config{})) },
		"stores/redisstore.New": func() error {
			return check(redisstore.New(offline, redisstore.Config{Mode: redisstore.Coalesced}))
		},
		"stores/share.New": func() (err error) {
			for _, mode := range []redisstore.Mode{redisstore.Strict, redisstore.Coalesced} {
				if store, err = share.New(offlineStore(mode), share.Config{}); err != nil {
					return err
				}
			}
			return check(ratelimit.New(ratelimit.Config{Name: "share", Store: store, OnStoreError: ratelimit.Local}))
		},
	}
	names := slices.Sorted(maps.Keys(constructors))
	found, passive := exported(t)
	require.True(t, passive["core/timeout"])
	require.False(t, passive["stores/redisstore"])
	require.Subset(t, found, names)
	for _, name := range found {
		if pkg, _, _ := strings.Cut(name, "."); !passive[pkg] { // otherwise it need not be here
			require.Contains(t, names, name, "each constructor is tested")
		}
	}
	slices.Reverse(names) // the store comes before the limiters that use it
	for _, name := range names {
		f := constructors[name]
		if f == nil {
			continue
		}
		before := runtime.NumGoroutine()
		require.NoError(t, f(), name)
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("%s: %d goroutines more", name, n-before)
		}
		if n := dials.Swap(0); n > 0 {
			t.Errorf("%s: %d connections dialed", name, n)
		}
	}
}
