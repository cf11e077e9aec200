package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// runVendor serves a vendor until ctx ends. It returns the exit code.
func runVendor(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("campaigns vendor", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:8090", "`address` to listen on; port 0 takes a free one")
	if err := program.Parse(flags, args, stderr, "-addr 127.0.0.1:8090", nil); err != nil {
		return program.ExitCode(err)
	}
	var s program.Stall
	go s.Watch(ctx)
	if err := program.Serve(ctx, *addr, newVendor(newArrivals(), &s), stdout, time.Second); err != nil {
		fmt.Fprintf(stderr, "campaigns vendor: %v\n", err)
		return 1
	}
	return 0
}

func newVendor(a *arrivals, s *program.Stall) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /judge", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a.judge(s.Duration())) // the client has left
	})
	mux.HandleFunc("POST /call", func(w http.ResponseWriter, r *http.Request) {
		now := time.Now() // before anything
		key := r.Header.Get("Idempotency-Key")
		if key == "" || r.Header.Get("X-Campaign") == "" {
			http.Error(w, "the headers Idempotency-Key and X-Campaign must be given", http.StatusBadRequest)
			return
		}
		a.add(now, key, program.Sent(r.Header))
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}
