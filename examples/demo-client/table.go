package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"text/tabwriter"

	"github.com/gresil/gresil/examples/internal/demo"
)

// A table shows requests, their results, and the reasons.
type table struct{ rows [][3]string }

func (t *table) add(sent, back, why string) { t.rows = append(t.rows, [3]string{sent, back, why}) }

func (t *table) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(tw, "  SENT\tCAME BACK\tWHY")
	for _, r := range t.rows {
		fmt.Fprintf(tw, "  %s\t%s\t%s\n", r[0], r[1], r[2])
	}
	_ = tw.Flush() // to standard output
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

// send sends a request, with a key or without.
func send(ctx context.Context, c *http.Client, method, url string, key ...string) answer {
	got, err := demo.Fetch(ctx, c, method, url, http.Header{"X-Api-Key": key}, nil)
	if err != nil {
		return answer{err: err}
	}
	return answer{status: got.StatusCode, header: got.Header, body: strings.TrimSpace(string(got.Text))}
}

// counted counts the requests that really go out.
type counted struct {
	http.RoundTripper
	n atomic.Int64
}

func (c *counted) RoundTrip(req *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.RoundTripper.RoundTrip(req)
}

// newNetwork is a transport of its own, with a count.
func newNetwork() (network *counted, closeIdle func()) {
	tr := &http.Transport{}
	return &counted{RoundTripper: tr}, tr.CloseIdleConnections
}

// expect is an error unless got is want.
func expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}
