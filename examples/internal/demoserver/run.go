package demoserver

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/stores/redisstore"
)

const slowestRoute = 35 * time.Second

// Run is the program: it serves until ctx ends, then finishes the requests in flight. It returns the exit code: 2 for a
// wrong command line.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("demo-server", flag.ContinueOnError)
	limit, mode, addr := 20, "strict", ""
	listen := flags.String("addr", "127.0.0.1:8080", "`address` to listen on; port 0 takes a free one")
	demo.Number(flags, &limit, "limit", 1, 1_000_000, "`requests` that /hello takes from one key in each period")
	period := flags.Duration("period", 10*time.Second, "length of the period")
	flags.StringVar(&addr, "redis", "", "`HOST:PORT` of a Redis that keeps the state of all limiters, for all servers that name it; "+
		"without it, each server has its own in memory. While Redis is unavailable, the answer is 503")
	flags.Func("mode", "how decisions get to Redis: `strict|coalesced` (default strict)", demo.OneOf(&mode, "strict", "coalesced"))
	cfg := ratelimit.Config{Registry: &core.Registry{}}
	check := func() error {
		cfg.Limit = ratelimit.FixedWindow(int64(limit), *period)
		return cfg.Validate()
	}
	if code, ok := demo.Parse(flags, args, stderr, check); !ok {
		return code
	}
	if err := serve(ctx, *listen, addr, redisstore.Mode(mode), cfg, stdout); err != nil {
		fmt.Fprintf(stderr, "demo-server: %v\n", err)
		return 1
	}
	return 0
}

func serve(ctx context.Context, listen, addr string, mode redisstore.Mode, cfg ratelimit.Config, stdout io.Writer) (err error) {
	if addr != "" {
		client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1})
		defer func() { err = errors.Join(err, client.Close()) }()
		// A demo has all of its servers, and their clients, on one machine: it may be slow.
		store, err := redisstore.New(client, redisstore.Config{Mode: mode, Timeout: time.Second, Registry: cfg.Registry})
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }()     // nothing is sent
		if err := store.Check(ctx); err != nil { // a mistake is reported at the start, not by requests
			return fmt.Errorf("-redis %s: %w", addr, err)
		}
		cfg.Store = store
	}
	handler, closeLimits, err := New(cfg)
	if err != nil {
		return err
	}
	return errors.Join(demo.Serve(ctx, listen, handler, stdout, slowestRoute), closeLimits())
}
