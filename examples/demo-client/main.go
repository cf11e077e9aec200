// Command demo-client shows the plugins at work, against a demo server: its own,
// unless it is given the URL of one. It exits non-zero when something did not
// happen as it should.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/gresil/gresil/examples/internal/demoserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

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

// run returns the exit code: 2 for a wrong command line, 1 when a scenario failed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	flags := flag.NewFlagSet("demo-client", flag.ContinueOnError)
	flags.SetOutput(stderr)
	target := flags.String("target", "", "`URL` of a demo server; without it, the client starts its own")
	which := flags.String("scenario", "all", "all|"+strings.Join(names, "|"))
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	chosen, err := choose(*which, *target, flags.Args())
	if err != nil {
		fmt.Fprintf(stderr, "demo-client: %v\n", err)
		return 2
	}
	if *target == "" {
		own, stop, err := startServer(ctx)
		if err != nil {
			fmt.Fprintf(stderr, "demo-client: %v\n", err)
			return 1
		}
		defer stop()
		*target = own
		fmt.Fprintf(stdout, "server: %s (5 requests in 2s)\n", own)
	}
	failed := 0
	for _, s := range chosen {
		fmt.Fprintf(stdout, "\n%s: %s\n\n", s.name, s.title)
		t := &table{}
		err := s.run(ctx, strings.TrimSuffix(*target, "/"), t)
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

// choose checks the command line.
func choose(which, target string, rest []string) ([]scenario, error) {
	if len(rest) > 0 {
		return nil, fmt.Errorf("unexpected argument %q: there are only flags", rest[0])
	}
	if target != "" {
		if u, err := url.Parse(target); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("-target %q: must be a URL, as in http://127.0.0.1:8080", target)
		}
	}
	var names []string
	for _, s := range scenarios() {
		if which == s.name {
			return []scenario{s}, nil
		}
		names = append(names, s.name)
	}
	if which != "all" {
		return nil, fmt.Errorf("-scenario %q: must be all, %s", which, strings.Join(names, ", "))
	}
	return scenarios(), nil
}

// startServer serves the demo on a free port.
func startServer(ctx context.Context) (target string, stop func(), err error) {
	handler, closePlugins, err := demoserver.New(demoserver.Config{Limit: 5, Period: 2 * time.Second})
	if err != nil {
		return "", nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, errors.Join(err, closePlugins())
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(listener) // ends when it is closed
	}()
	return "http://" + listener.Addr().String(), func() {
		_ = srv.Close()
		<-done
		_ = closePlugins()
	}, nil
}
