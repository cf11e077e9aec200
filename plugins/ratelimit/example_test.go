package ratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/go-chi/chi/v5"

	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

// status returns the status of a request to h, with a header field.
func status(h http.Handler, target, field, value string) int {
	r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	r.Header.Set(field, value)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func hello(http.ResponseWriter, *http.Request) {}

// Each client IP has two requests a minute.
func ExamplePerIP() {
	r := chi.NewRouter()
	r.Use(ratelimit.PerIP(ratelimit.PerMinute(2)))
	r.Get("/", hello)
	for range 3 {
		fmt.Println(status(r, "/", "X-Forwarded-For", "a client can write anything here"))
	}
	// Output:
	// 200
	// 200
	// 429
}

// Each user has a limit by plan, exports have a limit of their own, and all users together have a third one.
func ExampleNewServer() {
	limits, err := ratelimit.New(ratelimit.Config{Name: "api", Limit: ratelimit.PerMinute(2), Limits: map[string]ratelimit.Limit{
		"gold": ratelimit.PerMinute(3), "export": ratelimit.PerHour(1), "all": ratelimit.PerSecond(1000),
	}})
	if err != nil {
		panic(err)
	}
	byUser, err := ratelimit.NewServer(limits, ratelimit.ServerOptions{
		Key: server.Header("User"), // checked further out
		Tier: func(r *http.Request) string {
			if r.Header.Get("User") == "ann" {
				return "gold"
			}
			return ""
		},
		Routes: []ratelimit.Route{{Pattern: "/export", Limit: "export"}},
		Layers: []ratelimit.Layer{{Limit: "all"}},
	})
	if err != nil {
		panic(err)
	}
	h := byUser.Handler(http.HandlerFunc(hello))
	for range 4 {
		fmt.Println("ann", status(h, "/", "User", "ann"), "bob", status(h, "/", "User", "bob"))
	}
	fmt.Println("export", status(h, "/export", "User", "bob"), status(h, "/export", "User", "bob"))
	fmt.Println("nobody", status(h, "/", "User", ""))
	// Output:
	// ann 200 bob 200
	// ann 200 bob 200
	// ann 200 bob 429
	// ann 429 bob 429
	// export 200 429
	// nobody 403
}

// A wrong password is charged to the name, a right one is not.
func ExampleServer_Respond() {
	limits, err := ratelimit.New(ratelimit.Config{Limits: map[string]ratelimit.Limit{"login": ratelimit.PerMinute(2)}})
	if err != nil {
		panic(err)
	}
	byIP, err := ratelimit.NewServer(limits, ratelimit.ServerOptions{})
	if err != nil {
		panic(err)
	}
	logins := byIP.Named("login")
	h := byIP.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		take, ok := logins.Respond(w, r, "ann", 1)
		if !ok {
			return // 429 was sent
		}
		if r.Header.Get("Password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = limits.Refund(r.Context(), take)
	}))
	for _, password := range []string{"right", "wrong", "right", "wrong", "right"} {
		fmt.Println(password, status(h, "/", "Password", password))
	}
	// Output:
	// right 200
	// wrong 401
	// right 200
	// wrong 401
	// right 429
}
