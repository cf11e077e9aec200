package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/stores/redisstore"
)

// A cluster has the values of the flags.
type cluster struct {
	demo.Flags

	mode     redisstore.Mode
	duration time.Duration
	limit    int
	servers  int
}

// runCluster returns the exit code: 2 for a wrong command line, 1 when the limit was not shown to hold.
func runCluster(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := cluster{mode: redisstore.Strict, limit: 100, servers: 3, Flags: demo.Flags{Algorithm: "gresil"}}
	flags := flag.NewFlagSet("demo-client cluster", flag.ContinueOnError)
	flags.Func("redis", "`HOST:PORT` of a Redis; without it, the demo starts its own", demo.HostPort(&c.Redis))
	flags.Func("mode", "how decisions get to Redis: `strict|coalesced` (default strict)",
		demo.OneOf((*string)(&c.mode), "strict", "coalesced"))
	shared := flags.Bool("shared", true, "share the limit; with -shared=false there is the control alone, without Redis")
	flags.DurationVar(&c.duration, "duration", 10*time.Second, "how long to ask, 1s to 10m")
	flags.Func("limit", "`requests` that may pass in any second, through all servers together (default 100)", demo.Whole(&c.limit, 1, 1000))
	flags.Func("servers", "`number` of servers (default 3)", demo.Whole(&c.servers, 1, 32))
	err := demo.Parse(flags, args, stderr, "-limit 100", func() error {
		if c.duration < time.Second || c.duration > 10*time.Minute {
			return fmt.Errorf("-duration %v: must be 1s to 10m", c.duration)
		}
		return nil
	})
	if err != nil {
		return demo.ExitCode(err)
	}
	if !*shared {
		c.Alone, c.Algorithm = true, demo.Control
	}
	demand := fmt.Sprintf("%d requests may pass in any second, through %d servers together. "+
		"The servers of the control have a limit each.", c.limit, c.servers)
	return c.Show(ctx, stdout, stderr, demand, "ok: no second had more than the limit", c.report)
}

// A grant is a request that passed. It was decided at some time from the one at which it was sent to that of its response.
type grant struct{ sent, came time.Duration }

const (
	clientsEach = 8                              // for each server
	pause       = 10 * time.Millisecond          // of a client that was refused
	window      = time.Second - time.Millisecond // Redis counts whole microseconds
)

// A load asks servers for as much as they let through.
type load struct {
	cluster
	http  *http.Client
	urls  []string
	key   string // which no other run has
	start time.Time

	mu              sync.Mutex
	grants          []grant
	passed          []int // by server
	refused, failed int
	first           error // of what failed
}

// report asks the servers, and returns what they let through.
func (c cluster) report(ctx context.Context, f demo.Flags, screen *demo.Screen) *demo.Report {
	c.Flags = f
	l := &load{cluster: c, key: "cluster-" + rand.Text(), passed: make([]int, c.servers)}
	r := &demo.Report{Algorithm: c.Algorithm}
	r.Load(ctx, &c.Flags, screen, func(ctx context.Context, servers *demo.Servers) error {
		return l.serve(ctx, servers, screen)
	}, func(ctx context.Context, _ context.CancelCauseFunc) error {
		l.run(ctx, screen)
		return nil
	})
	for i, n := range l.passed {
		r.Set("server_"+strconv.Itoa(i+1), n, "Requests that this server let through.")
	}
	most := l.most()
	r.Set("refused", l.refused, "Requests that were over the limit.")
	r.Set("failed", l.failed, "Requests without an answer, or with another one.")
	r.Set("most_sliding", most, fmt.Sprintf("So many passed all servers in the fullest second of all; the limit is %d.", c.limit))
	r.Problem(most < c.limit*4/5, "no second had as many as the limit of %d, which shows nothing", c.limit)
	r.Problem(l.first != nil, "%d failed, the first: %v", l.failed, l.first)
	r.Broken(most > c.limit, false, "%d passed in a second, the limit is %d", most, c.limit)
	return r
}

// serve starts the servers, and a Redis that they share.
func (l *load) serve(ctx context.Context, servers *demo.Servers, screen *demo.Screen) (err error) {
	args := []string{"server", "-addr", "127.0.0.1:0", "-limit", strconv.Itoa(l.limit), "-period", "1s", "-sliding"}
	if l.Algorithm != demo.Control {
		if l.Redis == "" {
			if l.Redis, err = servers.StartRedis(ctx); err != nil {
				return fmt.Errorf("%w; -shared=false shows the effect without Redis", err)
			}
		}
		fmt.Fprintf(screen, "redis: %s, %v\n", l.Redis, l.mode)
		args = append(args, "-redis", l.Redis, "-mode", string(l.mode))
	}
	for i := range l.servers {
		url, err := servers.Start(ctx, fmt.Sprintf("server %d", i+1), args...)
		if err != nil {
			return err
		}
		fmt.Fprintf(screen, "server %d: %s\n", i+1, url)
		l.urls = append(l.urls, url)
	}
	return nil
}

// run asks for the duration, or until the end of ctx.
func (l *load) run(ctx context.Context, screen *demo.Screen) {
	ctx, cancel := context.WithTimeout(ctx, l.duration)
	defer cancel()
	clients := clientsEach * len(l.urls)
	l.http = demo.NewClient(&http.Transport{MaxIdleConnsPerHost: clients})
	defer l.http.CloseIdleConnections()
	l.start = time.Now()
	defer screen.Follow(ctx, l.start, func() (float64, string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return float64(time.Since(l.start)) / float64(l.duration), fmt.Sprintf("%d passed, %d were refused", len(l.grants), l.refused)
	})()
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range clients {
		wg.Go(func() {
			for server := i; ctx.Err() == nil; server++ {
				l.ask(ctx, server%len(l.urls))
			}
		})
	}
}

// ask sends a request to a server. A client that was refused waits for a moment.
func (l *load) ask(ctx context.Context, server int) {
	sent := time.Since(l.start)
	a, err := demo.Fetch(ctx, l.http, http.MethodGet, l.urls[server]+"/hello", http.Header{"X-Api-Key": {l.key}}, nil)
	if ctx.Err() != nil {
		return
	}
	if err == nil && a.StatusCode != http.StatusOK && a.StatusCode != http.StatusTooManyRequests {
		err = fmt.Errorf("server %d: %s", server+1, a.Status)
	}
	if l.note(server, grant{sent, time.Since(l.start)}, a.Response, err) {
		_ = demo.Sleep(ctx, pause) // the next request finds out
	}
}

// note counts a response or an error, and reports whether the client has to wait.
func (l *load) note(server int, g grant, resp *http.Response, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.failed++
		l.first = cmp.Or(l.first, err)
	case resp.StatusCode == http.StatusOK:
		l.passed[server]++
		l.grants = append(l.grants, g)
		return false
	default:
		l.refused++
	}
	return true
}

// most returns how many requests were sent and answered in the fullest second: so many were granted in it for sure.
func (l *load) most() (most int) {
	slices.SortFunc(l.grants, func(a, b grant) int { return cmp.Compare(a.sent, b.sent) })
	for i, first := range l.grants {
		n := 0
		for _, g := range l.grants[i:] {
			if g.sent > first.sent+window {
				break
			}
			if g.came < first.sent+window {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
