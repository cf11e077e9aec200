package client_test

import (
	"fmt"
	"net/http"

	"github.com/gresil/gresil/client"
)

// A plugin of your own is four methods.
type tagger struct{ header string }

func (t *tagger) Name() string        { return t.header }
func (t *tagger) Phase() client.Phase { return client.Monitoring }
func (t *tagger) Close() error        { return nil }
func (t *tagger) Transport(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		req = req.Clone(req.Context()) // a RoundTripper never changes its request
		req.Header.Set(t.header, "1")
		return next.RoundTrip(req)
	})
}

// The order of the arguments does not matter.
func ExampleNew() {
	retry := &stub{name: "retry", phase: client.State}
	breaker := &stub{name: "breaker", phase: client.Engine}
	transport := client.New(nil, breaker, &tagger{"X-Tag"}, retry)
	httpClient := &http.Client{Transport: transport}
	fmt.Println(httpClient.Transport)
	fmt.Println(len(transport.Check()), "inversions")
	// Output:
	// State *client_test.stub(retry) > Monitoring *client_test.tagger(X-Tag) > Engine *client_test.stub(breaker) > *http.Transport
	// 0 inversions
}

// A phase can be overridden. Check tells what that turns around.
func ExampleInPhase() {
	retry := &stub{name: "retry", phase: client.State}
	breaker := &stub{name: "breaker", phase: client.Engine}
	transport := client.New(nil, retry, client.InPhase(breaker, client.Before))
	for _, found := range transport.Check() {
		fmt.Println(found)
	}
	// Output:
	// client: *client_test.stub(breaker) is outside *client_test.stub(retry), which belongs outside of it (State before Engine)
}

func ExamplePhase() {
	fmt.Println(client.State, client.Engine+10)
	// Output: State Engine+10
}

// A plugin of your own passes the call on to the layer below.
func ExampleCloseIdleConnections() {
	base := client.New(nil)
	client.CloseIdleConnections(base)
	fmt.Println("closed")
	// Output: closed
}
