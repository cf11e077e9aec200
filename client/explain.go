package client

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
)

// Explain returns the error of an attempt for [Classify], which makes it Ignored if the
// caller is at fault. req is the request as it was sent, whose body must be one that a
// [Replay] gave it, or nothing is known of that. The caller is at fault if
//
//   - the Cancel channel of req was closed
//   - [http.Transport] refuses to send such a request: its URL, method, header or trailer
//     is not valid
//   - a Read of the request body failed, or the body was shorter or longer than the
//     ContentLength
//   - a time limit struck while the transport waited for the request body, or after it
//     had waited for that during half of the time or more
//
// Otherwise it returns err. Use the result only to decide about the call, and return err
// itself to the caller.
func Explain(req *http.Request, err error) error {
	if err == nil || errors.Is(err, core.ErrRejected) {
		return err
	}
	w := watchOf(req.Body)
	switch {
	case canceled(req), !sendable(req, err), w.wrongLength():
		return &blame.Error{Err: err, Final: true}
	case w.failed():
		return &blame.Error{Err: err, Final: req.GetBody == nil}
	case (blame.Timeout(err) || req.Context().Err() == context.DeadlineExceeded) && w.slow():
		return &blame.Error{Err: err}
	}
	return err
}

// canceled reports whether the caller closed the Cancel channel, which predates contexts.
func canceled(req *http.Request) bool {
	select {
	case <-req.Cancel: //nolint:staticcheck // net/http respects it
		return true
	default:
		return false
	}
}

// sendable reports whether [http.Transport] would send such a request. It has no types
// for the errors that say so, which matters only for a scheme: one that it does not know
// may be registered, or known to another RoundTripper.
func sendable(req *http.Request, err error) bool {
	if req.URL == nil || req.Header == nil || req.Method != "" && !isToken(req.Method) {
		return false
	}
	if s := req.URL.Scheme; s != "http" && s != "https" {
		return !strings.Contains(err.Error(), "unsupported protocol scheme")
	}
	if req.URL.Host == "" || req.Body == nil && req.ContentLength != 0 {
		return false
	}
	for key := range req.Trailer {
		switch http.CanonicalHeaderKey(key) {
		case "Transfer-Encoding", "Trailer", "Content-Length":
			return false
		}
	}
	return validFields(req.Header) && validFields(req.Trailer)
}

func validFields(fields http.Header) bool {
	for name, values := range fields {
		if !isToken(name) {
			return false
		}
		for _, v := range values {
			for i := range len(v) {
				if c := v[i]; c < ' ' && c != '\t' || c == 0x7f {
					return false
				}
			}
		}
	}
	return true
}

// isToken is that of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}
