package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gresil/gresil/examples/internal/demo"
)

// A scenario shows one thing. It writes each step into the table and returns an
// error when one went wrong.
type scenario struct {
	name, title string
	run         func(ctx context.Context, target string, t *table) error
}

func scenarios() []scenario {
	return []scenario{
		{"ratelimit", "the server limits each key, and says when to come back", showRateLimit},
		{"retry", "a request that fails twice is sent three times", showRetry},
		{"breaker", "a breaker stops asking a server that is down, and notices when it is back", showBreaker},
		{"timeout", "an attempt that takes too long is given up, and tried again", showTimeout},
		{"override", "one request has a configuration of its own", showOverride},
	}
}

// runScenarios returns the exit code: 2 for a wrong command line, 1 when a scenario failed.
func runScenarios(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	chosen, names := scenarios(), []string{"all"}
	for _, s := range chosen {
		names = append(names, s.name)
	}
	var target, which string
	flags := flag.NewFlagSet("demo-client", flag.ContinueOnError)
	flags.Func("target", "`URL` of a demo server; without it, the client starts its own", demo.URL(&target))
	flags.Func("scenario", strings.Join(names, "|")+" (default all)", demo.OneOf(&which, names...))
	if err := demo.Parse(flags, args, stderr, "-scenario retry", nil); err != nil {
		return demo.ExitCode(err)
	}
	if i := slices.Index(names, which); i > 0 {
		chosen = chosen[i-1 : i]
	}
	if target == "" {
		var servers demo.Servers
		defer servers.Stop()
		var err error
		if target, err = servers.Start(ctx, "the server", "server", "-addr", "127.0.0.1:0", "-limit", "5", "-period", "2s"); err != nil {
			fmt.Fprintf(stderr, "demo-client: %v\n", err)
			return 1
		}
		fmt.Fprintf(stdout, "server: %s (5 requests in 2s)\n", target)
	}
	failed := 0
	for _, s := range chosen {
		fmt.Fprintf(stdout, "\n%s: %s\n\n", s.name, s.title)
		t := &table{}
		err := s.run(ctx, target, t)
		t.print(stdout)
		if err != nil {
			failed++
			fmt.Fprintf(stdout, "\nFAILED: %v\n", err)
			continue
		}
		fmt.Fprintln(stdout, "\nok")
	}
	if failed > 0 {
		fmt.Fprintf(stderr, "demo-client: %d of %d scenarios failed\n", failed, len(chosen))
		return 1
	}
	return 0
}
