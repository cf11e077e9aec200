package dash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/dash"
	"github.com/gresil/gresil/outbound/batch"
)

// contacts is a batcher of texts, whose option is their first word.
func contacts(registry *core.Registry) (*batch.Batcher[string, string], error) {
	return batch.New(batch.Config[string, string]{
		Name: "contacts", Registry: registry,
		Option: func(record string) string { return strings.Fields(record)[0] },
		Send: func(_ context.Context, _ string, records []string) ([]batch.Result[string], error) {
			return make([]batch.Result[string], len(records)), nil // one call of the vendor
		},
	})
}

// adminOnly stands for the authentication of your service.
func adminOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, _, _ := r.BasicAuth(); user != "admin" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func ExampleNew() {
	registry := &core.Registry{}
	batcher, err := contacts(registry)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, record := range []string{"vip Ada", "vip Grace", "new Alan"} {
		if _, err := batcher.Add(context.Background(), record); err != nil {
			fmt.Println(err)
		}
	}
	page, err := dash.New(registry, dash.Config{Title: "Outbound"})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/dash/", http.StripPrefix("/ops/dash", adminOnly(page)))

	request := httptest.NewRequest(http.MethodGet, "/ops/dash/api/state?kind=batch&sort=option", nil)
	response := httptest.NewRecorder()
	mux.ServeHTTP(response, request)
	fmt.Println(response.Code)

	request.SetBasicAuth("admin", "")
	response = httptest.NewRecorder()
	mux.ServeHTTP(response, request)
	var state struct {
		Rows []struct {
			Option, State string
			Pending       int
		}
	}
	fmt.Println(response.Code, json.Unmarshal(response.Body.Bytes(), &state))
	for _, row := range state.Rows {
		fmt.Println(row.Option, row.State, row.Pending)
	}
	// Output:
	// 401
	// 200 <nil>
	// new pending 1
	// vip pending 2
}

func ExampleConfig_controls() {
	registry := &core.Registry{}
	batcher := core.Must(contacts(registry))
	_, err := batcher.Add(context.Background(), "vip Ada")
	fmt.Println(err)
	page := core.Must(dash.New(registry, dash.Config{
		Controls: true,
		Allow: func(_ *http.Request, a dash.Action) error {
			if a.Verb == "delete" {
				return errors.New("ask the owner of the records")
			}
			return nil
		},
	}))
	for _, verb := range []string{"pause", "delete"} {
		body := fmt.Sprintf(`{"verb":%q,"kind":"batch","name":"contacts","option":"vip"}`, verb)
		request := httptest.NewRequest(http.MethodPost, "/api/control", strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		response := httptest.NewRecorder()
		page.ServeHTTP(response, request)
		fmt.Print(response.Code, " ", response.Body)
	}
	// Output:
	// <nil>
	// 200 {"count":null,"kind":"batch","name":"contacts","option":"vip","verb":"pause"}
	// 403 {"title":"Forbidden","status":403,"detail":"ask the owner of the records"}
}

// A page without authentication names its hosts: a web site whose name resolves to its address cannot
// read it.
func ExampleConfig_hosts() {
	page := core.Must(dash.New(&core.Registry{}, dash.Config{Hosts: []string{"localhost", "127.0.0.1"}}))
	for _, host := range []string{"localhost:8080", "evil.example.com"} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.Host = host
		response := httptest.NewRecorder()
		page.ServeHTTP(response, request)
		fmt.Println(host, response.Code)
	}
	// Output:
	// localhost:8080 200
	// evil.example.com 421
}
