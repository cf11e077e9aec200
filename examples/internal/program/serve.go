package program

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Serve prints its URL once it listens, and serves until ctx ends. Requests that are in flight then
// have the grace.
func Serve(ctx context.Context, addr string, handler http.Handler, stdout io.Writer, grace time.Duration) error {
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
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	return srv.Shutdown(late)
}
