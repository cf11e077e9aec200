package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

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
	stall *demo.Stall

	mu  sync.Mutex
	sum verdict
}

func vendor(flags *flag.FlagSet) func(*demo.Stall) http.Handler {
	var c terms
	c.define(flags)
	return func(s *demo.Stall) http.Handler { return newVendor(c, s) }
}

func newVendor(c terms, s *demo.Stall) http.Handler {
	l := &ledger{terms: c, Arrivals: demo.NewArrivals(c.minute()), stall: s, sum: verdict{Calls: map[string]int{}}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /judge", func(w http.ResponseWriter, _ *http.Request) { demo.WriteJSON(w, l.judge()) })
	mux.HandleFunc("POST /merge", l.merge)
	return mux
}

// merge answers a call. One that is over the limit counts too.
func (l *ledger) merge(w http.ResponseWriter, r *http.Request) {
	if !l.Add(time.Now(), r.Header, l.CallsPerMinute) { // before anything
		l.count(func(v *verdict) { v.Over++ })
		http.Error(w, "too many calls in a minute", http.StatusTooManyRequests)
		return
	}
	c, err := read(w, r)
	switch {
	case err != nil:
		l.count(func(v *verdict) { v.Bad++ })
	case len(c.Records) > l.MaxRecords:
		l.count(func(v *verdict) { v.TooBig++ })
		err = fmt.Errorf("%d records: must be %d at most", len(c.Records), l.MaxRecords)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	l.count(func(v *verdict) {
		v.Calls[c.Option]++
		v.Records += len(c.Records)
	})
	a := answer{Results: make([]result, len(c.Records))}
	for i, record := range c.Records {
		l.Key(record)
		a.Results[i].OK = true
	}
	demo.WriteJSON(w, a)
}

func (l *ledger) count(add func(*verdict)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	add(&l.sum)
}

// judge returns the verdict so far.
func (l *ledger) judge() (v verdict) {
	l.count(func(sum *verdict) {
		v = *sum
		v.Calls = maps.Clone(sum.Calls)
	})
	v.Verdict = l.Judge(l.stall.Duration())
	return v
}

// read returns the call of a request, or the reason why it is malformed.
func read(w http.ResponseWriter, r *http.Request) (c call[json.RawMessage], err error) {
	err = json.NewDecoder(http.MaxBytesReader(w, r.Body, demo.Most)).Decode(&c)
	switch {
	case err != nil:
	case r.URL.Query().Get("method") == "" || r.Header.Get("Idempotency-Key") == "":
		err = errors.New("the parameter method and the header Idempotency-Key must be given")
	case c.Option == "" || len(c.Records) == 0:
		err = errors.New("there must be an option and a record at least")
	}
	return c, err
}
