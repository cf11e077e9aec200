package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// Vendor returns the part that is a vendor alone. define adds the flags of the vendor, and returns what makes its handler
// from their values.
func Vendor(name string, define func(*flag.FlagSet) (handler func(*Stall) http.Handler)) Part {
	return func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		flags := flag.NewFlagSet(name, flag.ContinueOnError)
		addr := flags.String("addr", "127.0.0.1:8090", "`address` to listen on; port 0 takes a free one")
		handler := define(flags)
		if err := Parse(flags, args, stderr, "-addr 127.0.0.1:8090", nil); err != nil {
			return ExitCode(err)
		}
		var s Stall
		go s.Watch(ctx)
		if err := Serve(ctx, *addr, handler(&s), stdout, time.Second); err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", name, err)
			return 1
		}
		return 0
	}
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
	if w, ok := w.(http.ResponseWriter); ok {
		w.Header().Set("Content-Type", "application/json")
	}
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
		if late := now.Sub(last) - beat; int64(late) > s.longest.Load() {
			s.longest.Store(int64(late))
		}
		last = now
	})
}

// Duration returns the longest time so far.
func (s *Stall) Duration() time.Duration { return time.Duration(s.longest.Load()) }

// Figures are those of a vendor, as it gave them.
type Figures map[string]json.RawMessage

// Num returns a figure that is a number, otherwise 0.
func (f Figures) Num(name string) (x float64) {
	_ = json.Unmarshal(f[name], &x) // as documented
	return x
}

const judgeTime = time.Minute

// Judge reads the figures of a vendor, within a minute. They are nil if it has no /judge.
func Judge(ctx context.Context, vendor string) (f Figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, judgeTime)
	defer cancel()
	a, err := Fetch(ctx, NewClient(&http.Transport{DisableKeepAlives: true}), http.MethodGet, vendor+"/judge", http.Header{}, nil)
	switch {
	case err != nil:
		return nil, NoAnswer(vendor, err)
	case a.StatusCode == http.StatusNotFound:
		return nil, nil
	case a.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s/judge answers %s: must be 200 with JSON, or 404", vendor, a.Status)
	}
	if err := json.Unmarshal(a.Text, &f); err != nil {
		return nil, fmt.Errorf("%s/judge must answer with a JSON object of numbers: %w", vendor, err)
	}
	return f, nil
}

// An Answer is a response whose body has been read.
type Answer struct {
	*http.Response

	Text []byte
}

// NewClient returns a client that returns redirections as they are.
func NewClient(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Most is the size of a body at most.
const Most = 64 << 20

// Fetch sends a request, which says when, and reads the response. The error is without the URL, which is long.
func Fetch(ctx context.Context, c *http.Client, method, to string, header http.Header, body []byte) (a Answer, err error) {
	sent := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// It is called right before the request is written.
		GotConn: func(httptrace.GotConnInfo) { header.Set(sentHeader, strconv.FormatInt(time.Now().UnixMicro(), 10)) },
	})
	req, err := http.NewRequestWithContext(sent, method, to, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header = header
	if a.Response, err = c.Do(req); err != nil { //nolint:bodyclose // below
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return a, err
	}
	defer func() { _ = a.Body.Close() }()
	a.Text, err = io.ReadAll(io.LimitReader(a.Body, Most))
	return a, err
}

// NoAnswer returns the error of a request to a vendor.
func NoAnswer(vendor string, err error) error {
	return fmt.Errorf("no answer from the vendor at %s: %w", vendor, err)
}
