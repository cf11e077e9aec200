package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/server"
)

// A named plugin says when a request passes it.
type named struct {
	name  string
	phase server.Phase
}

func (p named) Name() string        { return p.name }
func (p named) Phase() server.Phase { return p.phase }
func (p named) Close() error        { return nil }

func (p named) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(p.name)
		next.ServeHTTP(w, r)
	})
}

// The order of installation does not matter.
func ExampleNew() {
	limit := named{"limit", server.Admission}
	log := named{"log", server.Monitoring}
	auth := named{"auth", server.Handling}

	pipeline := core.Must(server.New(auth, limit, log))
	fmt.Println(pipeline)

	handler := pipeline.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { fmt.Println("handler") }))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	// Output:
	// Monitoring server_test.named(log) > Admission server_test.named(limit) > Handling server_test.named(auth)
	// log
	// limit
	// auth
	// handler
}

// A limiter whose key is the user has to be further in than what finds out who
// that is. Check tells what an override turned around.
func ExampleInPhase() {
	limit := named{"limit", server.Admission}
	auth := named{"auth", server.Handling}

	pipeline := core.Must(server.New(server.InPhase(limit, server.Handling+10), auth))
	fmt.Println(pipeline)
	for _, line := range pipeline.Check() {
		fmt.Println(line)
	}
	// Output:
	// Handling server_test.named(auth) > Handling+10 server_test.named(limit)
	// server: server_test.named(auth) is outside server_test.named(limit), which belongs outside of it (Admission before Handling)
}
