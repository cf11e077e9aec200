// Command demo-server is a chi service with limited, flaky, slow and unstable
// routes, for the demo client and for curl:
//
//	GET  /hello                -limit in each -period, for an X-API-Key or else an IP
//	GET  /search               5 a second, on their own
//	POST /upload               100 KiB a minute, by Content-Length
//	GET  /flaky?id=ID&fail=N   503 for the first N requests of the id
//	GET  /unstable             500 between POST /unstable/down and POST /unstable/up
//	GET  /slow?d=2s            at most 30s
//	GET  /health, GET /metrics
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gresil/gresil/examples/internal/demoserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run serves until ctx ends, then finishes what is in flight. It returns the exit
// code: 2 for a wrong command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("demo-server", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "Usage of demo-server: routes are /hello /search /upload /flaky?id=ID&fail=N /unstable /unstable/down /unstable/up /slow?d=2s /health /metrics")
		flags.PrintDefaults()
	}
	addr := flags.String("addr", "127.0.0.1:8080", "`address` to listen on; port 0 takes a free one")
	limit := flags.Int64("limit", 20, "requests that /hello takes from one key in each period")
	period := flags.Duration("period", 10*time.Second, "length of the period")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "demo-server: unexpected argument %q: there are only flags\n", flags.Arg(0))
		return 2
	}
	handler, closePlugins, err := demoserver.New(demoserver.Config{Limit: *limit, Period: *period})
	if err != nil {
		fmt.Fprintf(stderr, "demo-server: -limit %d -period %v: %v\n", *limit, *period, err)
		return 2
	}
	if err := serve(ctx, *addr, handler, stdout); err != nil {
		fmt.Fprintf(stderr, "demo-server: %v\n", err)
		return 1
	}
	if err := closePlugins(); err != nil {
		fmt.Fprintf(stderr, "demo-server: %v\n", err)
		return 1
	}
	return 0
}

// serve prints its URL once it listens. Requests that are in flight when ctx ends
// have as long as the slowest route takes.
func serve(ctx context.Context, addr string, handler http.Handler, stdout io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "http://%s\n", listener.Addr())
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 35*time.Second)
	defer cancel()
	return srv.Shutdown(grace)
}
