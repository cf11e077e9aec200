package client

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"

	"github.com/gresil/gresil/core"
)

// Idempotent tells whether a request may be sent twice with the effect of once:
// by its method (RFC 9110, section 9.2.2: GET, HEAD, OPTIONS, TRACE, PUT,
// DELETE; none is GET), or because it has an idempotency key.
func Idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return HasIdempotencyKey(req)
}

// HasIdempotencyKey tells whether a request has an Idempotency-Key or
// X-Idempotency-Key header. As with net/http, having the key in the map is
// enough, so that a nil value marks a request without being sent.
func HasIdempotencyKey(req *http.Request) bool {
	if _, ok := req.Header["Idempotency-Key"]; ok {
		return true
	}
	_, ok := req.Header["X-Idempotency-Key"]
	return ok
}

// NotSent tells whether err says that nothing of the request reached a server,
// so that repeating it is safe whatever its method: the name was not found,
// there was no connection, the certificate was not accepted, or a mechanism of
// this module rejected the call. So it is where a server refused the stream of
// HTTP/2 (REFUSED_STREAM), which means that it did nothing with it. False means that
// it is not known.
func NotSent(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, core.ErrRejected) {
		return true
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if reset, ok := errors.AsType[streamError](err); ok {
		return reset.Code == refusedStream
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect")
}

// A streamError is the StreamError of golang.org/x/net/http2, or net/http's own, which
// become any struct with these fields: errors.As with their method As.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

const refusedStream = 7 // RFC 9113, section 7

func (streamError) Error() string { return "http2: stream was reset" }
