package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
	"github.com/gresil/gresil/internal/escalating"
)

// runVendor serves a vendor until ctx ends. It returns the exit code.
func runVendor(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("vendor-actor vendor", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:8090", "`address` to listen on; port 0 takes a free one")
	grace := flags.Duration("grace", time.Second, "time after a trip in which calls are pardoned, before it is divided by the scale")
	scale := 1.0
	flags.Func("scale", "`factor` by which all times are shorter (default 1)", program.Number(&scale, 0.1, 1000))
	if err := program.Parse(flags, args, stderr, "-addr 127.0.0.1:8090", nil); err != nil {
		return program.ExitCode(err)
	}
	handler := newVendor(escalating.New(*grace, scale))
	if err := program.Serve(ctx, *addr, handler, stdout, time.Second); err != nil {
		fmt.Fprintf(stderr, "vendor-actor vendor: %v\n", err)
		return 1
	}
	return 0
}

func newVendor(v *escalating.Vendor) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, r *http.Request) {
		account, n := r.FormValue("account"), r.FormValue("n")
		if account == "" || n == "" {
			http.Error(w, "account and n must be given", http.StatusBadRequest)
			return
		}
		wait, err := v.Call(r.Context(), n)
		switch {
		case err != nil: // the client has left
		case wait > 0:
			w.Header().Set("Retry-After", ceil(wait, time.Second))
			w.Header().Set("X-Retry-After-Ms", ceil(wait, time.Millisecond))
			http.Error(w, "slow down", http.StatusTooManyRequests)
		default:
			writeJSON(w, map[string]string{"account": account, "n": n})
		}
	})
	mux.HandleFunc("GET /judge", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, v.Verdict()) })
	return mux
}

func ceil(d, unit time.Duration) string {
	return strconv.FormatInt(int64((d+unit-1)/unit), 10)
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	program.PrintJSON(w, value)
}
