package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/gresil/gresil/internal/redisserver"
)

// StartRedis starts a redis-server that ends with the others, and returns its address. It is a child
// of this program, run with the argument "redis", which must call [KeepRedis].
func (cs *Children) StartRedis(ctx context.Context) (addr string, err error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return "", errors.New("redis-server is not installed: install it, or give the -redis HOST:PORT of one that runs")
	}
	return cs.Start(ctx, "redis", "redis")
}

// KeepRedis runs a redis-server until ctx ends, prints its address, and returns the exit code.
func KeepRedis(ctx context.Context, stdout, stderr io.Writer) int {
	dir, err := os.MkdirTemp("", "gresil-demo-")
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is empty
	srv, err := redisserver.Start(dir)       //nolint:contextcheck // ctx ends it below
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	defer srv.Kill()
	fmt.Fprintln(stdout, srv.Addr)
	<-ctx.Done()
	return 0
}
