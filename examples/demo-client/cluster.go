package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/stores/redisstore"
)

// A cluster has the values of the flags.
type cluster struct {
	redis    string
	mode     redisstore.Mode
	shared   bool
	duration time.Duration
	limit    int
	servers  int
}

const (
	maxDuration = 10 * time.Minute // in which two clocks stay together
	maxServers  = 32
)

// runCluster returns the exit code: 2 for a wrong command line, 1 when the limit was not shown to hold.
func runCluster(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := cluster{mode: redisstore.Strict, limit: 100, servers: 3}
	flags := flag.NewFlagSet("demo-client cluster", flag.ContinueOnError)
	flags.Func("redis", "`HOST:PORT` of a Redis; without it, the demo starts its own", demo.HostPort(&c.redis))
	flags.Func("mode", "how decisions get to Redis: `strict|coalesced` (default strict)", demo.OneOf((*string)(&c.mode), "strict", "coalesced"))
	flags.BoolVar(&c.shared, "shared", true, "share the limit; with -shared=false each server has its own, which shows the effect without Redis")
	flags.DurationVar(&c.duration, "duration", 10*time.Second, "how long to ask, 1s to 10m")
	flags.Func("limit", "`requests` that may pass in each second, through all servers together (default 100)", demo.Whole(&c.limit, 1, 1_000_000))
	flags.Func("servers", "`number` of servers (default 3)", demo.Whole(&c.servers, 1, maxServers))
	err := demo.Parse(flags, args, stderr, "-limit 100", func() (err error) {
		flags.Visit(func(f *flag.Flag) {
			if !c.shared && (f.Name == "redis" || f.Name == "mode") {
				err = fmt.Errorf("-%s: there is no Redis with -shared=false", f.Name)
			}
		})
		if c.duration < time.Second || c.duration > maxDuration {
			err = fmt.Errorf("-duration %v: must be 1s to %v", c.duration, maxDuration)
		}
		return err
	})
	if err != nil {
		return demo.ExitCode(err)
	}
	held, err := c.show(ctx, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "demo-client cluster: %v\n", err)
	}
	if !held {
		return 1
	}
	return 0
}

// show starts the servers, sends the requests, and ends all. It reports whether the limit was shown to hold; an error says
// why that could not be found out.
func (c cluster) show(ctx context.Context, stdout, stderr io.Writer) (held bool, err error) {
	var servers demo.Servers
	defer servers.Stop()
	whose, args := "each server by itself", []string{"server", "-addr", "127.0.0.1:0", "-limit", strconv.Itoa(c.limit), "-period", "1s", "-aligned"}
	if c.shared {
		if c.redis == "" {
			if c.redis, err = servers.StartRedis(ctx); err != nil {
				return false, fmt.Errorf("%w; -shared=false shows the effect without Redis", err)
			}
		}
		fmt.Fprintf(stdout, "redis: %s, %v\n", c.redis, c.mode)
		whose, args = "all together", append(args, "-redis", c.redis, "-mode", string(c.mode))
	}
	var urls []string
	for i := range c.servers {
		url, err := servers.Start(ctx, fmt.Sprintf("server %d", i+1), args...)
		if err != nil {
			return false, err
		}
		fmt.Fprintf(stdout, "server %d: %s\n", i+1, url)
		urls = append(urls, url)
	}
	clock, err := newClock(ctx, c.redis)
	if err != nil {
		return false, err
	}
	l := newLoad(clock, urls, c.duration)
	fmt.Fprintf(stdout, "limit: %d a second for %s; %d clients ask each server in turn\n\n", c.limit, whose, l.clients)
	watched, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	servers.Watch(watched, cancel)
	l.run(watched, demo.NewScreen(stderr))
	rows := seconds(l.grants, l.from(), l.to(), c.servers, int64(c.limit))
	printRows(stdout, rows, int64(c.limit))
	fmt.Fprintf(stdout, "\n%d passed, %d were refused, %d failed%s\n", l.passed.Load(), l.refused.Load(), l.failed.Load(), l.problem())
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stdout, "interrupted")
	case watched.Err() != nil:
		return false, context.Cause(watched)
	}
	verdict, err := judge(rows, int64(c.limit))
	if err != nil {
		fmt.Fprintf(stdout, "FAILED: %v\n", err)
		return false, nil
	}
	fmt.Fprintf(stdout, "ok: %s\n", verdict)
	return true, nil
}
