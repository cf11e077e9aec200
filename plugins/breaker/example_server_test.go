package breaker_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/go-chi/chi/v5"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
)

func ExampleNewServer() {
	protect, err := breaker.NewServer(breaker.ServerConfig{Window: 2})
	if err != nil {
		panic(err)
	}
	r := chi.NewRouter()
	r.With(protect.Handler).Get("/report", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the database is down", http.StatusInternalServerError)
	})
	for range 3 {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/report", http.NoBody))
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// 500 ""
	// 500 ""
	// 503 "60"
}

func ExampleServer_SetConfig() {
	s := core.Must(breaker.NewServer(breaker.ServerConfig{}))
	fmt.Println(s.SetConfig(breaker.ServerConfig{Trials: 3}), s.For("").Snapshot().Trials)
	fmt.Println(s.SetConfig(breaker.ServerConfig{Name: "other"}))
	// Output:
	// <nil> 3
	// breaker.ServerConfig.Name = other: must stay default
}

func ExampleServer_Override() {
	protect := core.Must(breaker.NewServer(breaker.ServerConfig{Initial: breaker.ForcedOpen}))
	h := protect.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	health := func(next http.Handler) http.Handler { // further out
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/health" {
				r = r.WithContext(protect.Override(r.Context(), func(c *breaker.ServerCall) { c.Disabled = true }))
			}
			next.ServeHTTP(w, r)
		})
	}
	for _, path := range []string{"/", "/health"} {
		w := httptest.NewRecorder()
		health(h).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		fmt.Println(w.Code)
	}
	// Output:
	// 503
	// 200
}
