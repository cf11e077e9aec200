package dash_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
	"github.com/gresil/gresil/dash"
)

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
	registry := &core.Registry{} // in the Config of each mechanism and service
	search, err := breaker.New(breaker.Config{Name: "search", Registry: registry})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := search.SetState(breaker.ForcedOpen); err != nil {
		fmt.Println(err)
	}
	page, err := dash.New(registry, dash.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/", http.StripPrefix("/ops", adminOnly(page)))

	request := httptest.NewRequest(http.MethodGet, "/ops/state?kind=breaker", nil)
	response := httptest.NewRecorder()
	mux.ServeHTTP(response, request)
	fmt.Println(response.Code)

	request.SetBasicAuth("admin", "")
	response = httptest.NewRecorder()
	mux.ServeHTTP(response, request)
	var state struct {
		Tables []struct {
			Kind string
			Rows []struct {
				Name, Alarm string
				Cells       map[string]any
			}
		}
	}
	fmt.Println(response.Code, json.Unmarshal(response.Body.Bytes(), &state))
	for _, table := range state.Tables {
		for _, row := range table.Rows {
			fmt.Println(table.Kind, row.Name, row.Alarm, row.Cells["state"])
		}
	}
	// Output:
	// 401
	// 200 <nil>
	// breaker search notice forced_open
}

func ExampleConfig_controls() {
	registry := &core.Registry{}
	search := core.Must(breaker.New(breaker.Config{Name: "search", Registry: registry}))
	page := core.Must(dash.New(registry, dash.Config{
		Controls: func(_ *http.Request, a dash.Action) error {
			if a.Verb == "close" {
				return errors.New("ask the owner of the service")
			}
			return nil
		},
	}))
	for _, verb := range []string{"force_open", "close"} {
		body := fmt.Sprintf(`{"verb":%q,"kind":"breaker","name":"search"}`, verb)
		request := httptest.NewRequest(http.MethodPost, "/control", strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		response := httptest.NewRecorder()
		page.ServeHTTP(response, request)
		fmt.Println(response.Code, response.Body, search.State())
	}
	// Output:
	// 200 {"count":1,"kind":"breaker","name":"search","row":"","verb":"force_open"}
	//  forced_open
	// 403 {"type":"about:blank","title":"Forbidden","status":403,"detail":"ask the owner of the service"} forced_open
}

// A page without authentication needs Hosts: then a web site whose name resolves to its address cannot read it.
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
