package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/gresil/gresil/examples/internal/demo"
)

// A cluster has the values of the flags.
type cluster struct {
	started       demo.Servers
	limit, number int
	mode, redis   string
}

// runCluster returns the exit code: 2 for a wrong command line, 1 when the limit was not shown to hold.
func runCluster(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	c := cluster{started: demo.Servers{Lost: lost}, limit: 100, number: 3, mode: "strict"}
	defer c.started.Stop()
	flags := flag.NewFlagSet("demo-client cluster", flag.ContinueOnError)
	flags.StringVar(&c.redis, "redis", "", "`HOST:PORT` of a Redis; without it, the demo starts its own")
	flags.Func("mode", "how decisions get to Redis: `strict|coalesced` (default strict)", demo.OneOf(&c.mode, "strict", "coalesced"))
	demo.Number(flags, &c.limit, "limit", 1, 1000, "`requests` that may pass through all servers together")
	demo.Number(flags, &c.number, "servers", 2, 32, "`number` of servers")
	if code, ok := demo.Parse(flags, args, stderr, nil); !ok {
		return code
	}
	if c.redis == "" {
		addr, err := c.started.StartRedis(ctx)
		if err != nil {
			fmt.Fprintf(stderr, "demo-client: %v\n", err)
			return 1
		}
		c.redis = addr
	}
	fmt.Fprintf(stdout, "redis: %s\n", c.redis)
	return play(ctx, []scenario{
		{"shared", "servers with one Redis hold a limit together", func(ctx context.Context, s *stage) {
			s.expect("requests that passed", c.ask(ctx, s, "-redis", c.redis, "-mode", c.mode), c.limit)
		}},
		{"control", "servers without it have a limit each", func(ctx context.Context, s *stage) {
			s.expect("requests that passed", c.ask(ctx, s), c.limit*c.number)
		}},
	}, "", stdout, stderr)
}

const clients = 8 // at a time, for each server

// ask starts servers with these arguments, asks each as often as the limit permits, with a key that no other run has, and
// returns how many requests passed.
func (c *cluster) ask(ctx context.Context, s *stage, args ...string) (all int) {
	args = append([]string{"server", "-addr", "127.0.0.1:0", "-limit", strconv.Itoa(c.limit), "-period", "1h"}, args...)
	servers := make([]*stage, c.number)
	for i := range servers {
		url, err := c.started.Start(ctx, fmt.Sprintf("server %d", i+1), args...)
		if !s.expect("error of a start", err, nil) {
			return 0
		}
		servers[i] = &stage{target: url}
	}
	key, got := "cluster-"+rand.Text(), make([]answer, c.limit*c.number)
	var asking errgroup.Group
	asking.SetLimit(clients * c.number)
	for n := range got {
		asking.Go(func() error {
			got[n] = servers[n%c.number].get(ctx, s, "/hello", key)
			return got[n].err
		})
	}
	s.expect("error of a request", asking.Wait(), nil)
	for i := range servers {
		passed := 0
		for n := i; n < len(got); n += c.number {
			if got[n].status == http.StatusOK {
				passed++
			}
		}
		s.add(fmt.Sprintf("GET /hello × %d to %s", c.limit, servers[i].target), fmt.Sprintf("%d × 200 hello", passed), "the others are over the limit")
		all += passed
	}
	return all
}
