package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/gresil/gresil/examples/internal/demo"
)

// A stage is what a scenario has: a server, a network, and a table of requests, their results, and the reasons.
type stage struct {
	target string
	http.RoundTripper
	sent  atomic.Int64 // requests that really went out over the network
	rows  [][3]string
	wrong []string
}

// RoundTrip is the network: it counts the requests.
func (s *stage) RoundTrip(req *http.Request) (*http.Response, error) {
	s.sent.Add(1)
	return s.RoundTripper.RoundTrip(req)
}

func (s *stage) add(sent, back, why string) { s.rows = append(s.rows, [3]string{sent, back, why}) }

// show adds an answer to the table, and checks its status.
func (s *stage) show(sent string, got answer, status int, why string) (ok bool) {
	s.add(sent, got.String(), why)
	return s.expect("status of "+sent, got.status, status)
}

// expect checks that got is want.
func (s *stage) expect(what string, got, want any) (ok bool) {
	if got != want {
		s.wrong = append(s.wrong, fmt.Sprintf("%s: got %v, want %v", what, got, want))
	}
	return got == want
}

// An answer is a response, or an error.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

func (a answer) String() string {
	switch {
	case a.err != nil:
		return "error: " + a.err.Error()
	case a.status < 400 && len(a.body) > 0:
		return fmt.Sprintf("%d %s", a.status, a.body)
	}
	return fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
}

// get sends a request over a transport, with a key or without.
func (s *stage) get(ctx context.Context, over http.RoundTripper, path string, key ...string) answer {
	return s.send(ctx, over, http.MethodGet, path, key...)
}

func (s *stage) send(ctx context.Context, over http.RoundTripper, method, path string, key ...string) answer {
	got, err := demo.Fetch(ctx, &http.Client{Transport: over}, method, s.target+path, http.Header{"X-Api-Key": key}, nil)
	if err != nil {
		return answer{err: err}
	}
	return answer{status: got.StatusCode, header: got.Header, body: strings.TrimSpace(string(got.Text))}
}
