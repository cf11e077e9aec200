package timeout_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
)

func ExampleNewClient() {
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer slow.Close()
	try := core.Must(timeout.New(timeout.Config{Name: "try", Limit: 10 * time.Millisecond}))
	httpClient := &http.Client{Transport: client.New(nil,
		timeout.NewClient(nil, timeout.ClientOptions{}), // 30 seconds for all of it
		timeout.NewClient(try, timeout.ClientOptions{PerAttempt: true}),
	)}
	defer httpClient.CloseIdleConnections()
	_, err := httpClient.Head(slow.URL)
	fmt.Println(err.(interface{ Timeout() bool }).Timeout())
	fmt.Println(try.Stats())
	// Output:
	// true
	// succeeded=0 failed=0 timed_out=1
}

// OnRejected answers with another status, here that of a gateway.
func ExampleNewServer() {
	limit := core.Must(timeout.New(timeout.Config{Limit: time.Millisecond}))
	plugin := timeout.NewServer(limit, timeout.ServerOptions{OnRejected: func(w http.ResponseWriter, r *http.Request, rej server.Rejection) {
		rej.Status = http.StatusGatewayTimeout
		server.Reject(w, r, rej)
	}})
	handler := plugin.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Code)
	// Output: 504
}
