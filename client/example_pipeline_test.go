package client_test

import (
	"fmt"
	"net/http"

	"github.com/gresil/gresil/client"
)

// A plugin of your own is four methods.
type tagger struct{ header string }

func (t *tagger) Name() string        { return t.header }
func (t *tagger) Phase() client.Phase { return client.Admission }
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
	retry := &stub{name: "retry", phase: client.Attempts}
	breaker := &stub{name: "breaker", phase: client.Attempt}
	transport := client.New(nil, breaker, &tagger{"X-Tag"}, retry)
	httpClient := &http.Client{Transport: transport}
	fmt.Println(httpClient.Transport)
	fmt.Println(len(transport.Check()), "inversions")
	// Output:
	// Attempts *client_test.stub(retry) > Admission *client_test.tagger(X-Tag) > Attempt *client_test.stub(breaker) > *http.Transport
	// 0 inversions
}

// A phase can be overridden. Check tells what that turns around.
func ExampleInPhase() {
	retry := &stub{name: "retry", phase: client.Attempts}
	breaker := &stub{name: "breaker", phase: client.Attempt}
	transport := client.New(nil, retry, client.InPhase(breaker, client.Overall))
	for _, found := range transport.Check() {
		fmt.Println(found)
	}
	// Output:
	// client: *client_test.stub(breaker) is outside *client_test.stub(retry), which belongs outside of it (Attempts before Attempt)
}

func ExamplePhase() {
	fmt.Println(client.Attempts, client.Attempt+10)
	// Output: Attempts Attempt+10
}

// A plugin of your own passes the call on to the layer below.
func ExampleCloseIdleConnections() {
	base := client.New(nil)
	client.CloseIdleConnections(base)
	fmt.Println("closed")
	// Output: closed
}
