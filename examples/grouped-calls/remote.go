package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gresil/gresil/examples/internal/program"
)

// These are times and counts of our own, which no scale changes.
const (
	answerTime = 10 * time.Second // of the vendor
	sockets    = 100              // of a worker
)

// errRefused is the error of a call that was over the limit.
var errRefused = errors.New("the vendor refuses the call: too many in a minute")

// A malformedError is the error of a call that will never be accepted as it is.
type malformedError struct{ text string }

func (e *malformedError) Error() string { return "the vendor rejects the call: " + e.text }

// A remote is the vendor, over HTTP.
type remote struct {
	worker  *worker
	catalog map[string]string
	client  *http.Client
}

func newRemote(w *worker) remote {
	return remote{worker: w, catalog: catalog(w.Options), client: &http.Client{
		Timeout:       answerTime,
		Transport:     &http.Transport{MaxConnsPerHost: sockets, MaxIdleConnsPerHost: sockets},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// call makes one call. A call that is sent is waited for, even if ctx ends.
func (r remote) call(ctx context.Context, key, option string, records []record) ([]result, error) {
	header := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {key}}
	program.SetSent(header) // from here on nothing checks the permit
	body, err := json.Marshal(call[record]{option, records})
	if err != nil {
		return nil, err
	}
	url := r.worker.Vendor + "/merge?" + r.catalog[option]
	req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	results, err := r.exchange(req)
	switch {
	case errors.Is(err, errRefused):
		r.worker.say("refused 1")
	case err != nil:
		r.worker.say("wrong 1 %v", err)
	default:
		r.worker.say("called 1")
	}
	return results, err
}

// accepted returns how many of n records are.
func accepted(results []result, n int) (ok int) {
	for _, r := range results[:min(n, len(results))] {
		if r.OK {
			ok++
		}
	}
	return ok
}

func (r remote) exchange(req *http.Request) ([]result, error) {
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, program.NoAnswer(r.worker.Vendor, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, mostBytes)) // also so that the connection can be used again
	if err != nil {
		return nil, program.NoAnswer(r.worker.Vendor, err)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return nil, errRefused
	case http.StatusBadRequest:
		return nil, &malformedError{string(bytes.TrimSpace(text))}
	case http.StatusOK:
	default:
		return nil, fmt.Errorf("the vendor at %s answers %s to a call: must be 200, 400 or 429", r.worker.Vendor, resp.Status)
	}
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return nil, fmt.Errorf("the vendor at %s must answer with a JSON object that has the results: %w", r.worker.Vendor, err)
	}
	return a.Results, nil
}
