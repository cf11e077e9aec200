// Package client puts plugins around an http.RoundTripper, in a safe order whatever the order of the arguments. It also has what plugins
// share: routes, the wait that a response asks for, and bodies that can be sent again.
//
//	httpClient := &http.Client{Transport: client.New(nil, breakers, retries)}
//
// A plugin works without client.New too: its method Transport wraps a RoundTripper. A plugin of your own has two
// methods. [Middleware] makes a plugin of a function that wraps a RoundTripper.
//
// # Guarantees
//
// The caller's request is never changed, and its body is closed once. No body is kept in memory unless a plugin is told to.
package client
