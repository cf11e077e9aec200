package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
)

// defaultBase returns a clone of [http.DefaultTransport], or that itself if the program
// has set another type.
func defaultBase() (base http.RoundTripper, ours bool) {
	shared := http.DefaultTransport //nolint:forbidigo // it is cloned; a program that sets another type wants it used
	t, ok := shared.(*http.Transport)
	if !ok {
		return shared, false
	}
	t = t.Clone()
	t.OnProxyConnectResponse = refusing(t.OnProxyConnectResponse)
	return t, true
}

type onConnect = func(context.Context, *url.URL, *http.Request, *http.Response) error

// refusing returns an [http.Transport.OnProxyConnectResponse] whose error for a refused
// CONNECT shows that the request was not sent: it has the type of a dial to the proxy that
// fails. The error of net/http is only the reason phrase. before is the function that was
// set; its error is a refusal, too.
func refusing(before onConnect) onConnect {
	return func(ctx context.Context, proxy *url.URL, req *http.Request, resp *http.Response) error {
		var err error
		if before != nil {
			err = before(ctx, proxy, req, resp)
		}
		if err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		if err == nil {
			return nil
		}
		return &net.OpError{Op: "proxyconnect", Net: "tcp", Err: err}
	}
}
