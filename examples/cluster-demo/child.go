package main

import (
	"context"
	"os"

	"github.com/gresil/gresil/examples/internal/demoserver"
	"github.com/gresil/gresil/examples/internal/program"
)

// isChild reports whether the first argument makes this process one of those that the demo starts.
func isChild(arg string) bool { return arg == "redis" || arg == "server" }

func runChild(args []string) int {
	return program.RunChild(func(ctx context.Context) int {
		if args[0] == "server" {
			return demoserver.Run(ctx, args[1:], os.Stdout, os.Stderr)
		}
		return program.KeepRedis(ctx, os.Stdout, os.Stderr)
	})
}
