package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
)

// A readonly plugin lets only requests pass that change nothing.
type readonly struct{}

func (readonly) Name() string        { return "readonly" }
func (readonly) Phase() client.Phase { return client.Overall }
func (readonly) Close() error        { return nil }

func (readonly) Transport(next http.RoundTripper) http.RoundTripper { return readonlyTransport{next} }

type readonlyTransport struct{ next http.RoundTripper }

func (t readonlyTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		client.CloseBody(req) // a RoundTripper closes the body of every request
		return nil, fmt.Errorf("readonly: %w", core.ErrRejected)
	}
	return t.next.RoundTrip(req)
}

// The idle connections are those of the layer below.
func (t readonlyTransport) CloseIdleConnections() { client.CloseIdleConnections(t.next) }

func ExamplePlugin() {
	base := roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	c := &http.Client{Transport: client.New(base, readonly{})}
	resp, err := c.Get("http://example.test/")
	if err == nil {
		fmt.Println(resp.StatusCode, resp.Body.Close())
	}
	_, err = c.Post("http://example.test/", "text/plain", strings.NewReader("x"))
	fmt.Println(err, client.NotSent(err))
	// Output:
	// 200 <nil>
	// Post "http://example.test/": readonly: rejected true
}

// One host has one key, however its URL is written.
func ExampleHost() {
	for _, s := range []string{"https://API.example.com:443/a", "https://api.example.com/b", "http://api.example.com/"} {
		u, err := url.Parse(s)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(client.Host(&http.Request{URL: u}))
	}
	// Output:
	// api.example.com
	// api.example.com
	// api.example.com:80
}

// A request that net/http refuses to send does not count against the server.
func ExampleExplain() {
	base := client.New(nil)
	defer func() { _ = base.Close() }()
	ctx := context.Background()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.test/", http.NoBody)
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header["X-Bad"] = []string{"two\nlines"}
	resp, err := base.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	fmt.Println(client.Classify(ctx, resp, err), client.Classify(ctx, resp, client.Explain(req, err)))
	// Output: failure ignored
}

// An attempt that panics has not closed its body: Abort does.
func ExampleReplay_Abort() {
	ctx := context.Background()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://example.test/", strings.NewReader("hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	body := resiltest.WrapBody(req.Body)
	req.Body = body
	replay := client.NewReplay(req, 0)
	if _, err := replay.Attempt(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer func() {
		_ = recover()
		replay.Abort()
		fmt.Println(body.Closes())
	}()
	panic("in RoundTrip")
	// Output: 1
}
