package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/gresil/gresil/examples/internal/demo"
)

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

// A verdict is a vendor's view of the calls that arrived.
type verdict struct {
	demo.Verdict

	Over    int            `json:"over"`            // calls that were refused with 429
	TooBig  int            `json:"too_big"`         // calls with too many records
	Bad     int            `json:"bad"`             // calls that were malformed
	Calls   map[string]int `json:"calls_by_option"` // that were accepted
	Records int            `json:"records"`         // of these
}

// A ledger has the calls that arrived at a vendor.
type ledger struct {
	terms
	*demo.Arrivals

	mu  sync.Mutex
	sum verdict
}

func vendor(flags *flag.FlagSet) func(context.Context) http.Handler {
	var c terms
	c.define(flags)
	return func(ctx context.Context) http.Handler { return newVendor(ctx, c) }
}

func newVendor(ctx context.Context, c terms) http.Handler {
	l := &ledger{terms: c, Arrivals: demo.NewArrivals(ctx, c.minute()), sum: verdict{Calls: map[string]int{}}}
	return demo.NewVendor("POST /merge", l.merge, func() any { return l.judge() })
}

// merge answers a call. One that is over the limit, or rejected, counts too.
func (l *ledger) merge(w http.ResponseWriter, r *http.Request) {
	inMinute := l.Add(r.Header) // before anything
	c, err := read(w, r)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case inMinute > l.CallsPerMinute:
		l.sum.Over++
		http.Error(w, "too many calls in a minute", http.StatusTooManyRequests)
		return
	case err != nil:
		l.sum.Bad++
	case len(c.Records) > l.MaxRecords:
		l.sum.TooBig++
		err = fmt.Errorf("%d records: must be %d at most", len(c.Records), l.MaxRecords)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	l.sum.Calls[c.Option]++
	l.sum.Records += len(c.Records)
	a := answer{Results: make([]result, len(c.Records))}
	for i, record := range c.Records {
		l.Key(string(record))
		a.Results[i].OK = true
	}
	demo.WriteJSON(w, a)
}

// judge returns the verdict so far.
func (l *ledger) judge() verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.sum
	v.Calls, v.Verdict = maps.Clone(v.Calls), l.Judge()
	return v
}

// read returns the call of a request, or the reason why it is malformed.
func read(w http.ResponseWriter, r *http.Request) (c call[json.RawMessage], err error) {
	err = json.NewDecoder(http.MaxBytesReader(w, r.Body, demo.Most)).Decode(&c)
	given := []string{c.Option, r.URL.Query().Get("method"), r.Header.Get("Idempotency-Key")}
	if err == nil && (slices.Contains(given, "") || len(c.Records) == 0) {
		err = errors.New("an option, a record, the parameter method and the header Idempotency-Key must be given")
	}
	return c, err
}
