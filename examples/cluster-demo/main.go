// Command cluster-demo shows that a limit in Redis holds for several servers together. It starts
// several demo servers and a Redis, unless it is given one. Its clients ask all servers for more than
// the limit, and it counts what passed in each second. It
// exits non-zero when a second had more than the limit, or none had as much.
//
// With -shared=false each server has a limit of its own, in memory: three let three times as much
// through, and the demo fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/gresil/gresil/examples/internal/demoserver"
	"github.com/gresil/gresil/examples/internal/program"
	"github.com/gresil/gresil/stores/redisstore"
)

func main() {
	if len(os.Args) > 1 && isChild(os.Args[1]) {
		os.Exit(runChild(os.Args[1:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// config has the values of the flags.
type config struct {
	redis    string
	mode     redisstore.Mode
	shared   bool
	duration time.Duration
	limit    int64
	servers  int
}

const (
	maxDuration = 10 * time.Minute // in which two clocks stay together
	maxServers  = 32
)

// run returns the exit code: 2 for a wrong command line, 1 when the limit was not shown to hold.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	held, err := show(ctx, cfg, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "cluster-demo: %v\n", err)
	}
	if !held {
		return 1
	}
	return 0
}

// parse reads the command line, and reports its mistakes itself.
func parse(args []string, stderr io.Writer) (cfg config, err error) {
	flags := flag.NewFlagSet("cluster-demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&cfg.redis, "redis", "", "`HOST:PORT` of a Redis; without it, the demo starts its own")
	flags.StringVar((*string)(&cfg.mode), "mode", string(redisstore.Strict), "how decisions get to Redis: `strict|coalesced`")
	flags.BoolVar(&cfg.shared, "shared", true, "share the limit; with -shared=false each server has its own, which shows the effect without Redis")
	flags.DurationVar(&cfg.duration, "duration", 10*time.Second, "how long to ask, 1s to 10m")
	flags.Int64Var(&cfg.limit, "limit", 100, "requests that may pass in each second, through all servers together")
	flags.IntVar(&cfg.servers, "servers", 3, "how many servers there are, 1 to 32")
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	flags.Visit(func(f *flag.Flag) {
		if !cfg.shared && (f.Name == "redis" || f.Name == "mode") {
			err = fmt.Errorf("-%s %v: there is no Redis with -shared=false", f.Name, f.Value)
		}
		if f.Name == "redis" && err == nil {
			err = demoserver.CheckAddr(cfg.redis)
		}
	})
	switch {
	case err != nil:
	case redisstore.Config{Mode: cfg.mode}.Validate() != nil:
		err = fmt.Errorf("-mode %s: must be strict or coalesced", cfg.mode)
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q: there are only flags", flags.Arg(0))
	case cfg.duration < time.Second || cfg.duration > maxDuration:
		err = fmt.Errorf("-duration %v: must be 1s to %v", cfg.duration, maxDuration)
	case cfg.limit < 1:
		err = fmt.Errorf("-limit %d: must be at least 1", cfg.limit)
	case cfg.servers < 1 || cfg.servers > maxServers:
		err = fmt.Errorf("-servers %d: must be 1 to %d", cfg.servers, maxServers)
	}
	if err != nil {
		fmt.Fprintf(stderr, "cluster-demo: %v\n", err)
	}
	return cfg, err
}

// show starts the servers, sends the requests, and ends all. It reports whether the limit was shown to
// hold; an error says why that could not be found out.
func show(ctx context.Context, cfg config, stdout, stderr io.Writer) (held bool, err error) {
	var children program.Children
	defer children.Stop()
	args := []string{"server", "-addr", "127.0.0.1:0", "-limit", strconv.FormatInt(cfg.limit, 10), "-period", "1s", "-aligned"}
	if cfg.shared {
		if cfg.redis == "" {
			addr, err := children.StartRedis(ctx)
			if err != nil {
				return false, fmt.Errorf("%w; -shared=false shows the effect without Redis", err)
			}
			cfg.redis = addr
		}
		fmt.Fprintf(stdout, "redis: %s, %v\n", cfg.redis, cfg.mode)
		args = append(args, "-redis", cfg.redis, "-mode", string(cfg.mode))
	}
	var urls []string
	for i := range cfg.servers {
		url, err := children.Start(ctx, fmt.Sprintf("server %d", i+1), args...)
		if err != nil {
			return false, err
		}
		fmt.Fprintf(stdout, "server %d: %s\n", i+1, url)
		urls = append(urls, url)
	}
	clock, err := newClock(ctx, cfg.redis)
	if err != nil {
		return false, err
	}
	l := newLoad(clock, urls, cfg.duration)
	whose := "all together"
	if !cfg.shared {
		whose = "each server by itself"
	}
	fmt.Fprintf(stdout, "limit: %d a second for %s; %d clients ask each server in turn\n\n", cfg.limit, whose, l.clients)
	watched, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	children.Watch(watched, cancel)
	l.run(watched, stderr)
	rows := seconds(l.grants, l.from(), l.to(), cfg.servers, cfg.limit)
	printRows(stdout, rows, cfg.limit)
	fmt.Fprintf(stdout, "\n%d passed, %d were refused, %d failed%s\n", l.passed.Load(), l.refused.Load(), l.failed.Load(), l.problem())
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stdout, "interrupted")
	case watched.Err() != nil:
		return false, context.Cause(watched)
	}
	verdict, err := judge(rows, cfg.limit)
	if err != nil {
		fmt.Fprintf(stdout, "FAILED: %v\n", err)
		return false, nil
	}
	fmt.Fprintf(stdout, "ok: %s\n", verdict)
	return true, nil
}
