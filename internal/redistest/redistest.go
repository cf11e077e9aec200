// Package redistest has what tests with a redis-server and with further processes share.
package redistest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/gresil/gresil/internal/redisserver"
)

// Start starts a redis-server on a port of its own, which ends with the test.
func Start(tb testing.TB, args ...string) *redisserver.Server {
	tb.Helper()
	s, err := redisserver.Start(tb.TempDir(), args...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Kill)
	return s
}

// ForExample starts a redis-server, and returns its address and the function that ends it.
func ForExample() (addr string, stop func()) {
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		panic(err)
	}
	s, err := redisserver.Start(dir)
	if err != nil {
		panic(err)
	}
	return s.Addr, func() {
		s.Kill()
		_ = os.RemoveAll(dir)
	}
}

// Main calls f with the value of a variable of the environment, and ends the process, if the variable is
// set, as [Process] sets it. It is for the beginning of a TestMain.
func Main(variable string, f func(value string) error) {
	value, ok := os.LookupEnv(variable)
	if !ok {
		return
	}
	if err := f(value); err != nil {
		fmt.Fprintln(os.Stderr, "process:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Process returns the command that runs the test binary as another process: see [Main].
func Process(ctx context.Context, variable, value string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	cmd := exec.CommandContext(ctx, self) //nolint:gosec // ourselves
	cmd.Env = append(os.Environ(), variable+"="+value)
	return cmd
}
