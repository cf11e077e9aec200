package breaker_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/server"
)

// A 501 counts as a failure too. All other responses are judged as usual.
func ExampleServerConfig_classify() {
	protect := core.Must(breaker.NewServer(breaker.ServerConfig{
		Classify: func(r *http.Request, status int) core.Outcome {
			if status == http.StatusNotImplemented {
				return core.Failure
			}
			return server.Classify(r, status)
		},
	}))
	status := 0
	handler := protect.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	for _, status = range []int{200, 404, 500, 501, 505} {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	}
	s := protect.Stats()
	fmt.Println(s.Successes, s.Failures)
	// Output: 3 2
}

// The counters of all hosts together, and how many breakers are open.
func ExampleClient_Stats() {
	c := core.Must(breaker.NewClient(breaker.ClientConfig{Window: 1}))
	rt := c.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
		status := http.StatusOK
		if req.URL.Host == "down.test" {
			status = http.StatusBadGateway
		}
		return &http.Response{StatusCode: status, Body: http.NoBody, Request: req}, nil
	}))
	for _, url := range []string{"https://up.test/", "https://down.test/", "https://down.test/"} {
		resp, err := (&http.Client{Transport: rt}).Get(url)
		if err == nil {
			_ = resp.Body.Close()
		}
	}
	s := c.Stats()
	fmt.Println(s.Keys, "hosts,", s.States[breaker.Open], "open:", s.Successes, s.Failures, s.Rejected)
	// Output: 2 hosts, 1 open: 1 1 1
}
