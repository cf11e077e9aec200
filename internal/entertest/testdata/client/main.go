// Command client sends a GET through a retry and a breaker.
package main

import (
	"net/http"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/entertest"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
)

type stub struct{}

func (stub) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
}

func main() {
	rt := client.New(stub{}, breaker.NewClient(nil, breaker.ClientOptions{}), retry.NewClient(nil, retry.ClientOptions{}))
	req := core.Must(http.NewRequest(http.MethodGet, "https://api.example.com/", nil))
	entertest.Once(func() {
		resp := core.Must(rt.RoundTrip(req))
		_ = resp.Body.Close()
	})
}
