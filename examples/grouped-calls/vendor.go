package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// runVendor serves a vendor until ctx ends. It returns the exit code.
func runVendor(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("grouped-calls vendor", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:8090", "`address` to listen on; port 0 takes a free one")
	maxRecords, calls, scale := 200, 100, 1.0
	flags.Func("max-records", "`number` of records of a call at most (default 200)", program.Whole(&maxRecords, 1, mostRecordsOfCall))
	flags.Func("calls-per-minute", "`calls` in any minute at most (default 100)", program.Whole(&calls, 1, mostCalls))
	flags.Func("scale", "`factor` by which the minute is shorter (default 1)", program.Number(&scale, 0.1, mostScale))
	if err := program.Parse(flags, args, stderr, "-addr 127.0.0.1:8090", nil); err != nil {
		return program.ExitCode(err)
	}
	var s program.Stall
	go s.Watch(ctx)
	handler := newVendor(newLedger(calls, scaled(time.Minute, scale)), maxRecords, &s)
	if err := program.Serve(ctx, *addr, handler, stdout, time.Second); err != nil {
		fmt.Fprintf(stderr, "grouped-calls vendor: %v\n", err)
		return 1
	}
	return 0
}

// A call is the body of a request to the vendor, with records of any type.
type call[T any] struct {
	Option  string `json:"option"`
	Records []T    `json:"records"`
}

// An answer has a result for each record of a call, in their order.
type answer struct {
	Results []result `json:"results"`
}

type result struct {
	OK    bool   `json:"ok"`
	Error string `json:"error"`
}

const mostBytes = 64 << 20 // of a call

func newVendor(l *ledger, maxRecords int, s *program.Stall) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /judge", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		program.PrintJSON(w, l.judge(s.Duration()))
	})
	mux.HandleFunc("POST /merge", func(w http.ResponseWriter, r *http.Request) {
		if now := time.Now(); !l.arrive(now, program.Sent(r.Header)) { // before anything
			http.Error(w, "too many calls in a minute", http.StatusTooManyRequests)
			return
		}
		c, err := read(w, r)
		if tooBig := err == nil && len(c.Records) > maxRecords; err != nil || tooBig {
			l.refuse(tooBig)
			if tooBig {
				err = fmt.Errorf("%d records: must be %d at most", len(c.Records), maxRecords)
			}
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		l.accept(c.Option, c.Records)
		a := answer{Results: make([]result, len(c.Records))}
		for i := range a.Results {
			a.Results[i].OK = true
		}
		w.Header().Set("Content-Type", "application/json")
		program.PrintJSON(w, a)
	})
	return mux
}

// read returns the call of a request, or the reason why it is malformed.
func read(w http.ResponseWriter, r *http.Request) (c call[json.RawMessage], err error) {
	err = json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBytes)).Decode(&c)
	switch {
	case err != nil:
	case r.URL.Query().Get("method") == "" || r.Header.Get("Idempotency-Key") == "":
		err = errors.New("the parameter method and the header Idempotency-Key must be given")
	case c.Option == "" || len(c.Records) == 0:
		err = errors.New("there must be an option and a record at least")
	}
	return c, err
}
