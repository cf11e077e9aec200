package breaker_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/plugins/breaker"
)

func ExampleNewClient() {
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	defer down.Close()
	hosts, err := breaker.NewGroup(breaker.Config{Name: "search"})
	if err != nil {
		fmt.Println(err)
		return
	}
	httpClient := &http.Client{Transport: client.New(nil, breaker.NewClient(hosts, breaker.ClientOptions{}))}
	for range 6 {
		resp, err := httpClient.Get(down.URL)
		if err != nil {
			fmt.Println(errors.Is(err, breaker.ErrOpen))
			continue
		}
		fmt.Println(resp.Status)
		_ = resp.Body.Close()
	}
	// Output:
	// 500 Internal Server Error
	// 500 Internal Server Error
	// 500 Internal Server Error
	// 500 Internal Server Error
	// 500 Internal Server Error
	// true
}

func ExampleNewServer() {
	one, err := breaker.NewGroup(breaker.Config{Failures: 2, OpenDelay: backoff.Constant{Delay: 30 * time.Second}})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := breaker.NewServer(one, breaker.ServerOptions{}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
	}))
	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 502 ""
	// 502 ""
	// 503 "30"
}
