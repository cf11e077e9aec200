// Package roundtrip has what transports around other transports owe to net/http.
package roundtrip

import "net/http"

// Default returns a clone of [http.DefaultTransport], or http.DefaultTransport itself if the program has set one of another type.
func Default() http.RoundTripper {
	if t, ok := http.DefaultTransport.(*http.Transport); ok { //nolint:forbidigo // it is cloned
		return t.Clone()
	}
	return http.DefaultTransport //nolint:forbidigo // a program that sets another type wants it used
}

// CloseBody closes the body of a request that is not sent, as a RoundTripper must. A nil req is ignored.
func CloseBody(req *http.Request) {
	if req != nil && req.Body != nil {
		_ = req.Body.Close() // it is not read, so its error has no meaning
	}
}

// CloseResponse closes the body of a response that is not returned. A nil resp is ignored.
func CloseResponse(resp *http.Response) {
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close() // its error means nothing to the caller
	}
}

// CloseIdleConnections passes the call on, if rt has that method.
func CloseIdleConnections(rt http.RoundTripper) {
	if c, ok := rt.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Restore makes the request of a response the caller's, if it is the one that was sent instead.
func Restore(resp *http.Response, sent, caller *http.Request) {
	if resp != nil && resp.Request == sent {
		resp.Request = caller
	}
}
