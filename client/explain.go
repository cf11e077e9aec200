package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
	"github.com/gresil/gresil/internal/header"
	"github.com/gresil/gresil/internal/request"
)

// Explain returns the error of an attempt for [Classify], which makes it Ignored if the
// caller is at fault. req is the request as it was sent, whose body must be one that a
// [Replay] gave it, or nothing is known of that. The caller is at fault if
//
//   - the Cancel channel of req was closed, but not at a deadline
//   - [http.Transport] refuses to send such a request: its URL, Host, method, header or
//     trailer is not valid, or not allowed in HTTP/2
//   - a Read of the request body failed, or the body was shorter or longer than the
//     ContentLength
//   - a time limit struck before the request body, of which something was read, was read to
//     its end
//
// A transport can send other bodies of GetBody after the first one, as net/http does after
// it lost a connection: the body that it read last counts, and so does an error of GetBody.
// They are observed unless the first body is one that http.NewRequest keeps in memory.
//
// A server that gives up a slow body is not excused: its 408 is a Success, as any answer
// of that kind, and a lost connection is a Failure, since a crash looks the same.
//
// Otherwise it returns err. Use the result only to decide about the call, and return err
// itself to the caller.
func Explain(req *http.Request, err error) error {
	if err == nil || errors.Is(err, core.ErrRejected) {
		return err
	}
	wrongLength, failed, unfinished := watchOf(req.Body).faults()
	switch {
	case request.Canceled(req) && !late(req.Context()), !sendable(req, err), wrongLength:
		return &blame.Error{Err: err, Final: true}
	case failed:
		return &blame.Error{Err: err, Final: req.GetBody == nil}
	case (blame.Timeout(err) || req.Context().Err() == context.DeadlineExceeded) && unfinished:
		return &blame.Error{Err: err}
	case nowhere(req): // a failure of another RoundTripper, to which it may be an address
		return &blame.Error{Err: err, Outcome: core.Failure, Final: true}
	}
	return err
}

// late reports whether the deadline of ctx is reached. http.Client.Timeout closes the Cancel
// channel of a request at its deadline, perhaps a moment before the context ends.
func late(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

// refusals are the beginnings of the errors with which [http.Transport] refuses a request,
// which an inner RoundTripper may have changed. It has no types for them.
var refusals = [...]string{ //nolint:gochecknoglobals // a constant
	"http: nil Request.URL",
	"http: nil Request.Header",
	"http: no Host in request URL",
	"http: invalid Host header",
	"http: Request.ContentLength=",
	"net/http: invalid header ",
	"net/http: invalid trailer ",
	"net/http: invalid method ",
	"net/http: can't write control character",
	"invalid Trailer key ",
	"unsupported protocol scheme ",
	"http2: invalid ",
	"http2: request header list larger than",
}

func refused(err error) bool {
	text := err.Error()
	return slices.ContainsFunc(refusals[:], func(r string) bool { return strings.HasPrefix(text, r) })
}

// sendable reports whether such a request can be sent. What only
// [http.Transport] demands, such as a Host or a registered scheme, is known by its error.
func sendable(req *http.Request, err error) bool {
	if req.Method != "" && !header.IsToken(req.Method) || req.Body == nil && req.ContentLength != 0 || blame.Any(err, refused) {
		return false
	}
	trailer := trailerOf(req)
	for key := range trailer {
		switch http.CanonicalHeaderKey(key) {
		case "Transfer-Encoding", "Trailer", "Content-Length":
			return false
		}
	}
	return validFields(req.Header) && validFields(trailer)
}

// nowhere reports whether req has no address, by the rules of [http.Transport].
func nowhere(req *http.Request) bool {
	return req.URL == nil || req.URL.Host == "" && (req.URL.Scheme == "http" || req.URL.Scheme == "https")
}

func validFields(fields http.Header) bool {
	for name, values := range fields {
		if !header.IsToken(name) {
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
