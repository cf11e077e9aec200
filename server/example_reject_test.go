package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/gresil/gresil/server"
)

func ExampleReject() {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	server.Reject(w, r, server.Rejection{
		Status:     http.StatusTooManyRequests,
		RetryAfter: 4200 * time.Millisecond,
		Policies:   []string{"burst"},
	})
	fmt.Println(w.Code, w.Header().Get("Content-Type"), w.Header().Get("Retry-After"))
	fmt.Println(w.Body)

	w = httptest.NewRecorder()
	r.Header.Set("Accept", "text/plain")
	server.Reject(w, r, server.Rejection{Status: http.StatusRequestEntityTooLarge, Detail: "at most 1 MiB"})
	fmt.Print(w.Body)
	// Output:
	// 429 application/problem+json 5
	// {"type":"about:blank","title":"Too Many Requests","status":429,"violated-policies":["burst"]}
	// Request Entity Too Large: at most 1 MiB
}

// An access log that sees what was sent, and what was refused.
func ExampleRecorder() {
	log := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var rec server.Recorder
			next.ServeHTTP(rec.Wrap(w), r)
			fmt.Println(r.URL.Path, rec.Status(), rec.Bytes(), rec.Rejected())
		})
	}
	handler := log(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/full" {
			server.Reject(w, r, server.Rejection{})
			return
		}
		_, _ = fmt.Fprint(w, "hello")
	}))
	for _, path := range []string{"/", "/full"} {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, http.NoBody))
	}
	// Output:
	// / 200 5 <nil>
	// /full 503 65 rejected
}

// A field that is known only at the end, sent before the body.
func ExampleRecorder_OnHeader() {
	refused := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var rec server.Recorder
			w = rec.Wrap(w)
			rec.OnHeader(func(status int) {
				w.Header().Set("X-Refused", strconv.FormatBool(rec.Rejected() != nil))
				fmt.Println("sending", status)
			})
			next.ServeHTTP(w, r)
		})
	}
	handler := refused(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.Reject(w, r, server.Rejection{})
	}))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	fmt.Println(w.Result().Header["X-Refused"])
	// Output:
	// sending 503
	// [true]
}

func ExampleMarkRejected() {
	var rec server.Recorder
	outer := rec.Wrap(httptest.NewRecorder())
	// A plugin that answers in a way of its own says first that it refuses.
	if server.MarkRejected(outer, fmt.Errorf("closed for today")) {
		outer.WriteHeader(http.StatusServiceUnavailable)
	}
	fmt.Println(rec.Status(), rec.Rejected())
	// Output: 503 closed for today
}
