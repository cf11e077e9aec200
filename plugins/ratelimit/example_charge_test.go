package ratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/ratelimit"
)

// Only failed logins count: for the address that they come from, and for the user.
func ExampleFrom() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{
		Name:   "login",
		Limit:  ratelimit.PerMinute(2),
		Weight: func(*http.Request) (int64, error) { return 0, nil },
	}))
	handler := limits.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") == "secret" {
			return
		}
		charge, ok := ratelimit.From(r.Context())
		if !ok {
			http.Error(w, "no limiter", http.StatusInternalServerError)
			return
		}
		result, err := charge.Take(r.Context(), 1)
		if err == nil && result.Allowed {
			result, err = charge.TakeKey(r.Context(), "user:"+r.FormValue("user"), 1)
		}
		switch {
		case err != nil:
			http.Error(w, "try again", http.StatusServiceUnavailable)
		case !result.Allowed:
			charge.Reject(w, r, result) // and what was taken goes back
		default:
			http.Error(w, "wrong password", http.StatusUnauthorized)
		}
	}))
	for _, password := range []string{"secret", "secret", "secret", "a", "b", "c", "secret"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/?user=ann&password="+password, http.NoBody))
		fmt.Println(password, w.Code, w.Header()["X-Rate-Limited"])
	}
	// Output:
	// secret 200 [false]
	// secret 200 [false]
	// secret 200 [false]
	// a 401 [false]
	// b 401 [false]
	// c 429 [true]
	// secret 200 [false]
}

// A search costs one for each row that it found, which is known afterwards. What the
// last one took beyond the limit is not charged.
func ExampleCharge_Take() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{
		Limit:   ratelimit.PerMinute(100),
		Headers: ratelimit.HeaderDraft10,
	}))
	handler := limits.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rows, err := strconv.ParseInt(r.FormValue("rows"), 10, 64)
		if err != nil {
			http.Error(w, "bad rows", http.StatusBadRequest)
			return
		}
		if charge, ok := ratelimit.From(r.Context()); ok {
			if _, err := charge.Take(r.Context(), rows); err != nil {
				http.Error(w, "try again", http.StatusServiceUnavailable)
				return
			}
		}
		_, _ = fmt.Fprintln(w, rows, "rows")
	}))
	for _, rows := range []string{"49", "30", "10"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?rows="+rows, http.NoBody))
		fmt.Println(rows, w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// 49 200 "default";r=50;t=60
	// 30 200 "default";r=19;t=60
	// 10 200 "default";r=8;t=60
}

// What did not work costs nothing.
func ExampleCharge_Refund() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Limit: ratelimit.PerMinute(1)}))
	handler := limits.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if charge, ok := ratelimit.From(r.Context()); ok && r.URL.Path == "/broken" {
			if err := charge.Refund(r.Context()); err != nil {
				w.Header().Set("X-Not-Refunded", "true")
			}
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	for _, path := range []string{"/broken", "/broken", "/", "/"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		fmt.Println(path, w.Code)
	}
	// Output:
	// /broken 502
	// /broken 502
	// / 200
	// / 429
}

// An endpoint that tells how a client stands, and costs nothing.
func ExampleCharge_Peek() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{
		Limit:  ratelimit.PerMinute(10),
		Routes: []ratelimit.Route{{Pattern: "GET /usage", Weight: func(*http.Request) (int64, error) { return 0, nil }}},
	}))
	handler := limits.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/usage" {
			return
		}
		charge, ok := limits.From(r.Context())
		if !ok {
			return
		}
		if now, err := charge.Peek(r.Context()); err == nil {
			_, _ = fmt.Fprintf(w, "%d of %d", now.Limit-now.Remaining, now.Limit)
		}
	}))
	for _, path := range []string{"/", "/", "/usage", "/usage"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		fmt.Printf("%s %q\n", path, w.Body)
	}
	// Output:
	// / ""
	// / ""
	// /usage "2 of 10"
	// /usage "2 of 10"
}
