package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/gresil/gresil/examples/internal/demoserver"
	"github.com/gresil/gresil/examples/internal/program"
	"github.com/gresil/gresil/internal/redisserver"
)

// isChild reports whether the first argument makes this process one of those that the demo starts.
func isChild(arg string) bool { return arg == "redis" || arg == "server" }

func runChild(args []string) int {
	return program.RunChild(func(ctx context.Context) int {
		if args[0] == "server" {
			return demoserver.Run(ctx, args[1:], os.Stdout, os.Stderr)
		}
		if err := keepRedis(ctx, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	})
}

// keepRedis has a redis-server until ctx ends, and prints its address.
func keepRedis(ctx context.Context, stdout io.Writer) error {
	dir, err := os.MkdirTemp("", "cluster-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is empty
	srv, err := redisserver.Start(dir)       //nolint:contextcheck // ctx ends it below
	if err != nil {
		return err
	}
	defer srv.Kill()
	fmt.Fprintln(stdout, srv.Addr)
	<-ctx.Done()
	return nil
}
