// Command demo-client shows the plugins at work.
//
//	demo-client [scenarios] [-target URL]
//	demo-client cluster [-redis HOST:PORT] [-mode strict|coalesced] [-limit N] [-servers N]
//
// The scenarios are requests to a demo server: its own, unless it is given the URL of one.
//
// The cluster shows that a limit in Redis holds for several servers together. It starts several demo servers and a Redis,
// unless it is given one, asks each server as often as the limit permits, all at once, and counts what passed. The servers of
// the control have a limit each, in memory: three let three times as much through.
//
// The exit code is 0 if everything happened as it should, 1 if it did not, and 2 for a wrong command line.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"

	"github.com/gresil/gresil/examples/internal/demo"
	"github.com/gresil/gresil/examples/internal/demoserver"
)

func main() { command().Main() }

func command() demo.Command {
	return demo.Command{Whole: runScenarios, Parts: map[string]demo.Part{
		"scenarios": runScenarios, "cluster": runCluster, "server": demoserver.Run,
	}}
}

// A scenario shows one thing. It writes each step into the table, and checks that it went as it should.
type scenario struct {
	name, title string
	run         func(ctx context.Context, s *stage)
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
	flags := flag.NewFlagSet("demo-client", flag.ContinueOnError)
	target := flags.String("target", "", "`URL` of a demo server; without it, the client starts its own")
	if code, ok := demo.Parse(flags, args, stderr, nil); !ok {
		return code
	}
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	servers := demo.Servers{Lost: lost}
	defer servers.Stop()
	if *target == "" {
		url, err := servers.Start(ctx, "the server", "server", "-addr", "127.0.0.1:0", "-limit", "5", "-period", "2s")
		if err != nil {
			fmt.Fprintf(stderr, "demo-client: %v\n", err)
			return 1
		}
		fmt.Fprintf(stdout, "server: %s (5 requests in 2s)\n", url)
		*target = url
	}
	return play(ctx, scenarios(), strings.TrimRight(*target, "/"), stdout, stderr)
}

// play runs scenarios, and returns the exit code.
func play(ctx context.Context, all []scenario, target string, stdout, stderr io.Writer) int {
	failed := 0
	for _, each := range all {
		fmt.Fprintf(stdout, "\n%s: %s\n\n", each.name, each.title)
		s := &stage{target: target, RoundTripper: &http.Transport{DisableKeepAlives: true}}
		each.run(ctx, s)
		tw := tabwriter.NewWriter(stdout, 0, 0, 3, ' ', 0)
		fmt.Fprintln(tw, "  SENT\tCAME BACK\tWHY")
		for _, row := range s.rows {
			fmt.Fprintf(tw, "  %s\t%s\t%s\n", row[0], row[1], row[2])
		}
		_ = tw.Flush() // to standard output
		if len(s.wrong) > 0 {
			failed++
			fmt.Fprintf(stdout, "\nFAILED: %s\n", strings.Join(s.wrong, "\n"))
			continue
		}
		fmt.Fprintln(stdout, "\nok")
	}
	if failed > 0 {
		fmt.Fprintf(stderr, "demo-client: %d of %d scenarios failed\n", failed, len(all))
		return 1
	}
	return 0
}
