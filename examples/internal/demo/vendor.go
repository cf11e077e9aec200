package demo

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Vendor returns the part that is a vendor alone. define adds the flags of the vendor, and returns what makes its handler
// from their values.
func Vendor(name string, define func(*flag.FlagSet) (handler func(context.Context) http.Handler)) Part {
	return func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		flags := flag.NewFlagSet(name, flag.ContinueOnError)
		addr := flags.String("addr", "127.0.0.1:8090", "`address` to listen on; port 0 takes a free one")
		handler := define(flags)
		if code, ok := Parse(flags, args, stderr, nil); !ok {
			return code
		}
		if err := Serve(ctx, *addr, handler(ctx), stdout, time.Second); err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", name, err)
			return 1
		}
		return 0
	}
}

// NewVendor returns the handler of a vendor: its calls match the pattern, and GET /judge returns what judge does.
func NewVendor(pattern string, call http.HandlerFunc, judge func() any) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(pattern, call)
	mux.HandleFunc("GET /judge", func(w http.ResponseWriter, _ *http.Request) { WriteJSON(w, judge()) })
	return mux
}

// Serve prints its URL once it listens, and serves until ctx ends. Requests that are in flight then have the grace.
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

// WriteJSON writes one object.
func WriteJSON(w io.Writer, value any) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value) // to standard output, or to a client that has left
}

// A Stall is the longest time by which a timer of this process was late: it had no CPU, or was stopped.
type Stall struct{ longest atomic.Int64 }

const beat = 5 * time.Millisecond

// Watch measures until ctx ends.
func (s *Stall) Watch(ctx context.Context) {
	last := time.Now()
	Repeat(ctx, beat, func() {
		now := time.Now()
		s.longest.Store(max(s.longest.Load(), int64(now.Sub(last)-beat)))
		last = now
	})
}

// Duration returns the longest time so far.
func (s *Stall) Duration() time.Duration { return time.Duration(s.longest.Load()) }
