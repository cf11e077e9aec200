package timeout_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
)

// The stack of a handler that panics would be lost: the panic continues in another
// goroutine.
func ExampleServerConfig_panicked() {
	limit := core.Must(timeout.NewServer(timeout.ServerConfig{
		Panicked: func(_ context.Context, end timeout.Ended) { fmt.Println(end.Panic, len(end.Stack) > 0) },
	}))
	handler := limit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("no such table") }))
	defer func() {
		fmt.Println("recovered:", recover())
		fmt.Println(limit.Stats().Failed)
	}()
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	// Output:
	// no such table true
	// recovered: no such table
	// 1
}

// A handler that ignores its context ends after the answer was sent.
func ExampleServerConfig_late() {
	late := make(chan timeout.Ended)
	limit := core.Must(timeout.NewServer(timeout.ServerConfig{
		Limit: time.Millisecond,
		Late:  func(_ context.Context, end timeout.Ended) { late <- end },
	}))
	release := make(chan struct{})
	handler := limit.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	fmt.Println(w.Code, limit.Stats().TimedOut)
	close(release)
	fmt.Println("it ended:", (<-late).Panic)
	// Output:
	// 503 1
	// it ended: <nil>
}

func ExampleServer_SetConfig() {
	limit := core.Must(timeout.NewServer(timeout.ServerConfig{Name: "web"}))
	cfg := limit.Config()
	cfg.Limit = 5 * time.Second
	fmt.Println(limit.SetConfig(cfg), limit.Config().Limit)
	fmt.Println(limit.SetConfig(timeout.ServerConfig{MaxBuffer: -1}))
	// Output:
	// <nil> 5s
	// timeout.ServerConfig.MaxBuffer = -1: must be >= 0 (0 means 65536)
}

// A limit around all attempts, and its counters.
func ExampleClient_Stats() {
	total := core.Must(timeout.NewTotal(timeout.Config{Limit: time.Millisecond}))
	c := &http.Client{Transport: total.Transport(stub(hangs))}
	_, err := c.Get("http://example.test/")
	fmt.Println(err)
	s := total.Stats()
	fmt.Println(s.Succeeded, s.TimedOut)
	// Output:
	// Get "http://example.test/": timeout: "total" took longer than 1ms
	// 0 1
}
