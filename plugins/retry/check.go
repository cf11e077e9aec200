package retry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/blame"
)

// DefaultCheckRetry is what decides when a [Config] does not. It is
// go-retryablehttp's DefaultRetryPolicy, which retries errors, 429 and 5xx but
// not 501, with these differences:
//
//   - 505 is not retried, nor 600 and above, which is not 5xx, nor is 421, since nothing makes sure that the next
//     attempt takes another connection.
//   - 408 and 425 are retried once, after the first attempt.
//   - A name that does not exist is not looked up again. A lookup that failed in
//     another way is.
//   - A cancellation is not retried, whoever cancelled: an attempt that ran into
//     its own time limit is.
//   - Certificates that are not trusted are found however the error is wrapped, those
//     that a VerifyConnection does not accept too. Other errors that are the same
//     each time are not retried either: an address that is not valid, a server that
//     does not speak TLS, a [core.ConfigError] of an inner plugin, and what
//     [client.Explain] finds: a request that net/http refuses to send, a request body
//     whose length is not its ContentLength, or one without GetBody whose Read failed.
//
// It has the type of go-retryablehttp's CheckRetry, to be wrapped in one.
func DefaultCheckRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if resp == nil && err == nil {
		return false, nil
	}
	if err == nil {
		switch resp.StatusCode {
		case http.StatusRequestTimeout, http.StatusTooEarly:
			return ctx.Err() == nil && retry.FromContext(ctx).Retry == 0, nil
		case http.StatusHTTPVersionNotSupported:
			return false, nil
		}
		if resp.StatusCode > 599 {
			return false, nil
		}
		return retryablehttp.DefaultRetryPolicy(ctx, resp, nil)
	}
	if terminal(err) {
		return false, nil
	}
	if _, ok := err.(*url.Error); !ok { //nolint:errorlint // it is looked for as itself, not in the tree
		err = &url.Error{Err: err}
	}
	return retryablehttp.DefaultRetryPolicy(ctx, nil, err)
}

// terminal reports whether another attempt cannot cure err.
func terminal(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, core.ErrConfig) || errors.Is(err, http.ErrSchemeMismatch) || untrusted(err) {
		return true
	}
	if fault := blame.Of(err); fault != nil && fault.Final {
		return true
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok { // http.Client makes ErrSchemeMismatch of some
		return true
	}
	if _, ok := errors.AsType[*net.AddrError](err); ok {
		return true
	}
	dns, ok := errors.AsType[*net.DNSError](err)
	return ok && dns.IsNotFound
}

// untrusted tells of certificates that were not accepted, by net/http or by a
// VerifyConnection of the user's, which may return what x509 says.
func untrusted(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	_, ok := errors.AsType[x509.CertificateInvalidError](err)
	return ok
}

// gaveUp reports whether the Cancel channel of req was closed.
func gaveUp(req *http.Request) bool {
	select {
	case <-req.Cancel: //nolint:staticcheck // net/http respects it
		return true
	default:
		return false
	}
}

// OnServerError makes c retry the responses 500 to 599, no others, of requests
// with any method: POST too. Errors are retried as before, and then of any
// method. Use it with [Config.With] and [Plugin.Override]; it replaces what c
// had for responses.
func OnServerError(c *Config) {
	c.CheckRetry, c.RetryResponse, c.AnyMethod = nil, serverError, true
}

// OnServerErrorIfIdempotent is [OnServerError] for requests that may be repeated
// by their method or an Idempotency-Key.
func OnServerErrorIfIdempotent(c *Config) {
	c.CheckRetry, c.RetryResponse, c.AnyMethod, c.Methods = nil, serverError, false, nil
}

// OnTimeout makes c retry, of the errors, those that are timeouts: of an attempt,
// of the dialing, of a read. It replaces what c had for errors. It needs a limit
// per attempt, as the timeout plugin sets it: when the request's own context has
// ended, nothing is retried.
func OnTimeout(c *Config) { c.CheckRetry, c.RetryIf = nil, isTimeout }

// Off makes c not retry at all: ctx = retries.Override(ctx, retry.Off).
func Off(c *Config) { c.MaxAttempts = 1 }

// Any returns a predicate that holds where one of predicates does: for RetryIf and
// RetryResponse. One that is nil is left out.
func Any[V any](predicates ...func(V) bool) func(V) bool { return retry.Any(predicates...) }

// All returns a predicate that holds where all of predicates do. One that is nil
// is left out.
func All[V any](predicates ...func(V) bool) func(V) bool { return retry.All(predicates...) }

func serverError(resp *http.Response) bool { return resp.StatusCode >= 500 && resp.StatusCode <= 599 }

// asClientError wraps err as http.Client does, for those who look for that.
func asClientError(req *http.Request, err error) error {
	e := &url.Error{Op: "Get", Err: err}
	if m := req.Method; m != "" {
		e.Op = m[:1] + strings.ToLower(m[1:])
	}
	if req.URL != nil {
		e.URL = req.URL.Redacted()
	}
	return e
}
