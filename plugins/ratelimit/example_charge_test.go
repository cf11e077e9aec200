package ratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/ratelimit"
)

// Only failed logins count: for the address that they come from, and for the user. Both
// are charged before the password is looked at: one that is used up is refused whatever
// the password, or guessing would go on until the answer is another one.
func ExampleChargeOf() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{
		Name:   "login",
		Limit:  ratelimit.PerMinute(2),
		Weight: func(*http.Request) (int64, error) { return 0, nil },
	}))
	handler := limits.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charge, ok := ratelimit.ChargeOf(w)
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
			return
		case !result.Allowed && charge.Reject(w, r, result): // and what this request took goes back
			return
		case r.FormValue("password") != "secret":
			http.Error(w, "wrong password", http.StatusUnauthorized) // and stays charged
			return
		}
		if err := charge.Refund(r.Context()); err != nil {
			w.Header().Set("X-Not-Refunded", "true")
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
	// secret 429 [true]
}

// A search costs one for each row that it found, which is known afterwards: it takes
// what there is, and the next request finds nothing left.
func ExampleCharge_TakeAtMost() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{
		Limit:   ratelimit.PerMinute(100),
		Headers: ratelimit.HeaderXRateLimit,
	}))
	handler := limits.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rows, err := strconv.ParseInt(r.FormValue("rows"), 10, 64)
		if err != nil {
			http.Error(w, "bad rows", http.StatusBadRequest)
			return
		}
		if charge, ok := ratelimit.ChargeOf(w); ok {
			if _, err := charge.TakeAtMost(r.Context(), rows); err != nil {
				http.Error(w, "try again", http.StatusServiceUnavailable)
				return
			}
		}
		_, _ = fmt.Fprintln(w, rows, "rows")
	}))
	for _, rows := range []string{"49", "1000", "1"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?rows="+rows, http.NoBody))
		fmt.Println(rows, w.Code, w.Header().Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 49 200 50
	// 1000 200 0
	// 1 429 0
}

// What did not work costs nothing.
func ExampleCharge_Refund() {
	limits := core.Must(ratelimit.NewServer(ratelimit.ServerConfig{Limit: ratelimit.PerMinute(1)}))
	handler := limits.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if charge, ok := ratelimit.ChargeOf(w); ok && r.URL.Path == "/broken" {
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
		Name:   "api",
		Limit:  ratelimit.PerMinute(10),
		Layers: []ratelimit.Layer{{Name: "all", Limit: ratelimit.PerMinute(50)}},
		Routes: []ratelimit.Route{{Pattern: "GET /usage", Weight: func(*http.Request) (int64, error) { return 0, nil }}},
	}))
	handler := limits.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charge, ok := limits.ChargeOf(w)
		if !ok || r.URL.Path != "/usage" {
			return
		}
		infos, err := charge.Peek(r.Context())
		if err != nil {
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		for _, info := range infos {
			_, _ = fmt.Fprintf(w, "%s: %d of %d. ", info.Name, info.Result.Limit-info.Result.Remaining, info.Result.Limit)
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
	// /usage "api: 2 of 10. all: 2 of 50. "
	// /usage "api: 2 of 10. all: 2 of 50. "
}
