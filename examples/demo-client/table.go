package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"text/tabwriter"
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

// An answer is a response that was read, or an error.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

func (a answer) String() string {
	if a.err != nil {
		err := a.err
		for errors.Unwrap(err) != nil && strings.Contains(err.Error(), "http://") { // *url.Error repeats the URL
			err = errors.Unwrap(err)
		}
		return "error: " + err.Error()
	}
	if a.status < 400 && len(a.body) > 0 {
		return fmt.Sprintf("%d %s", a.status, a.body)
	}
	return fmt.Sprintf("%d %s", a.status, http.StatusText(a.status))
}

// send sends a request and reads the whole response.
func send(ctx context.Context, c *http.Client, method, url string, header ...string) answer {
	req, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return answer{err: err}
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		return answer{err: err}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return answer{err: err}
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: strings.TrimSpace(string(body))}
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
