package demoserver

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/examples/internal/program"
	"github.com/gresil/gresil/stores/redisstore"
)

const slowestRoute = 35 * time.Second

// Run is the program: it serves until ctx ends, then finishes the requests in flight. It returns the
// exit code: 2 for a wrong command line.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("demo-server", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "Usage of demo-server: routes are /hello /search /upload /flaky?id=ID&fail=N /unstable /unstable/down /unstable/up /slow?d=2s /health /metrics")
		flags.PrintDefaults()
	}
	cfg := Config{Registry: &core.Registry{}}
	var mode redisstore.Mode
	addr := flags.String("addr", "127.0.0.1:8080", "`address` to listen on; port 0 takes a free one")
	flags.Int64Var(&cfg.Limit, "limit", 20, "requests that /hello takes from one key in each period")
	flags.DurationVar(&cfg.Period, "period", 10*time.Second, "length of the period")
	flags.BoolVar(&cfg.Aligned, "aligned", false, "begin periods with the clock, as seconds and minutes do, not with a request")
	redisAddr := flags.String("redis", "", "`HOST:PORT` of a Redis that keeps the state of all limiters, for all servers that name it; without it, each server has its own in memory. While Redis is unavailable, the answer is 503")
	flags.StringVar((*string)(&mode), "mode", string(redisstore.Strict), "how decisions get to Redis: `strict|coalesced`")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	fail := func(code int, format string, args ...any) int {
		fmt.Fprintf(stderr, "demo-server: "+format+"\n", args...)
		return code
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case flags.NArg() > 0:
		return fail(2, "unexpected argument %q: there are only flags", flags.Arg(0))
	case redisstore.Config{Mode: mode}.Validate() != nil:
		return fail(2, "-mode %v: must be strict or coalesced", mode)
	case given["mode"] && !given["redis"]:
		return fail(2, "-mode %v: is for -redis HOST:PORT, without which the state is in memory", mode)
	}
	closeStore := func() error { return nil }
	if given["redis"] {
		if err := CheckAddr(*redisAddr); err != nil {
			return fail(2, "%v", err)
		}
		store, closeIt, err := openRedis(ctx, *redisAddr, mode, cfg.Registry)
		if err != nil {
			return fail(1, "-redis %s: %v", *redisAddr, err)
		}
		cfg.Store, closeStore = store, closeIt
	}
	handler, closePlugins, err := New(cfg)
	if err != nil {
		_ = closeStore() // nothing was written
		return fail(2, "-limit %d -period %v: %v", cfg.Limit, cfg.Period, err)
	}
	if err := errors.Join(program.Serve(ctx, *addr, handler, stdout, slowestRoute), closePlugins(), closeStore()); err != nil {
		return fail(1, "%v", err)
	}
	return 0
}

// CheckAddr is an error unless addr can be a value of -redis.
func CheckAddr(addr string) error {
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
		return fmt.Errorf("-redis %q: must be HOST:PORT, as 127.0.0.1:6379", addr)
	}
	return nil
}

// openRedis makes a store over a client of its own. It checks the server first, so that
// mistakes are reported at the start and not by requests.
func openRedis(ctx context.Context, addr string, mode redisstore.Mode, registry *core.Registry) (store *redisstore.Store, closeStore func() error, err error) {
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1})
	// A demo has all of its servers, and their clients, on one machine: it may be slow.
	store, err = redisstore.New(client, redisstore.Config{Mode: mode, Timeout: time.Second, Registry: registry})
	if err == nil {
		err = store.Check(ctx)
	}
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return store, func() error { return errors.Join(store.Close(), client.Close()) }, nil
}
