package client

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"reflect"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
)

// Idempotent reports whether sending a request twice has the same effect as sending it once. That follows from its
// method (RFC 9110, section 9.2.2: GET, HEAD, OPTIONS, TRACE, PUT, DELETE; an empty method is GET), or from an
// Idempotency-Key or X-Idempotency-Key header. As with net/http, it is enough that the key is in the header map: a nil
// value marks a request, but is not sent.
func Idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	_, ok := req.Header["Idempotency-Key"]
	_, x := req.Header["X-Idempotency-Key"]
	return ok || x
}

// NotSent reports whether err shows that nothing of the request reached a server, so that repeating it is safe whatever
// its method: the name was not found, no connection was made, the TLS handshake took longer than the
// TLSHandshakeTimeout, a proxy refused the CONNECT, the certificate was not accepted, or a mechanism of this module
// rejected the call. It is also true if a server refused the stream of HTTP/2 (REFUSED_STREAM) or went away before it
// (GOAWAY), since it has done nothing with the request then. False means that it is not known. If net/http has repeated a
// request by itself, which it does with an idempotent one, err is that of the last time only.
//
// net/http has no type for a refused CONNECT: its error is the reason phrase of the proxy. NotSent recognizes the
// standard phrases, such as "Proxy Authentication Required". A RoundTripper that returns such an error for a request
// that it has sent must wrap it. OnProxyConnectResponse of an [http.Transport] can return a [*net.OpError] with the Op
// "proxyconnect" instead, whatever the phrase.
func NotSent(err error) bool {
	if err == nil {
		return false
	}
	known := blame.Of(err)
	switch {
	case known != nil && known.Sent:
		return false
	case errors.Is(err, core.ErrRejected), known != nil && known.NotSent,
		blame.Has[*net.DNSError](err), blame.Has[*tls.CertificateVerificationError](err),
		blame.Refused(err), refusedConnect(err), blame.Any(err, noHandshake):
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect")
}

// refusedConnect reports whether err is the error of [http.Transport] after a proxy has answered CONNECT with another
// status than 200.
func refusedConnect(err error) bool {
	if reflect.TypeOf(err) != reflect.TypeOf(core.ErrRejected) { // errors.New; another type says more
		return false
	}
	text := err.Error()
	for status := 201; status < 600; status++ {
		if text != "" && text == http.StatusText(status) {
			return true
		}
	}
	return text == "unknown status code"
}

// noHandshake reports whether the TLSHandshakeTimeout of [http.Transport] was exceeded.
func noHandshake(err error) bool { return err.Error() == "net/http: TLS handshake timeout" }
