package timeout_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
)

func ExampleNewServer() {
	limit, err := timeout.NewServer(timeout.ServerConfig{
		Limit: 10 * time.Millisecond,
		OnRejected: func(w http.ResponseWriter, r *http.Request, rej server.Rejection) {
			rej.Status, rej.RetryAfter = http.StatusGatewayTimeout, 5*time.Second
			server.Reject(w, r, rej)
		},
	})
	if err != nil {
		panic(err)
	}
	r := chi.NewRouter()
	r.Get("/report", func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done() // a query that takes too long
	})
	srv := &http.Server{Handler: limit.Handler(r)} // around the whole router, not in r.Use
	w := httptest.NewRecorder()
	srv.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/report", nil))
	fmt.Println(w.Code, w.Header().Get("Retry-After"))
	fmt.Println(w.Body)
	// Output:
	// 504 5
	// {"type":"about:blank","title":"Gateway Timeout","status":504,"detail":"The request took too long."}
}

// A route that takes longer gets a limit of its own from a middleware further out.
func ExampleServer_Override() {
	limit := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Nanosecond}))
	export := limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(time.Millisecond)
		_, _ = io.WriteString(w, "all of it")
	}))
	unhurried := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := limit.Override(r.Context(), func(c *timeout.ServerConfig) { c.Limit = time.Minute })
		export.ServeHTTP(w, r.WithContext(ctx))
	})
	w := httptest.NewRecorder()
	unhurried.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/export", nil))
	fmt.Println(w.Code, w.Body)
	// Output: 200 all of it
}
