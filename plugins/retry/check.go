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

// DefaultCheckRetry decides if a [Config] has no function for that. It is
// go-retryablehttp's DefaultRetryPolicy, which retries errors, 429 and 5xx except 501,
// with these differences:
//
//   - 505 is not retried, nor 600 and above, which is not 5xx. Nor is 421, since the next
//     attempt might use the same connection.
//   - 408 and 425 are retried once, after the first attempt.
//   - A name that does not exist is not looked up again. A lookup that failed in
//     another way is retried.
//   - A cancellation is not retried, but an attempt over its own time limit is.
//   - Certificates that are not trusted are found however the error is wrapped, and so
//     are those that a VerifyConnection rejects. Other errors that would occur again are
//     not retried either: an invalid address, a server that does not speak TLS, a
//     [core.ConfigError] of an inner plugin, and the faults that [client.Explain] finds:
//     a request that net/http refuses to send, a request body whose length is not its
//     ContentLength, or a body without GetBody whose Read failed.
//
// It has the type of go-retryablehttp's CheckRetry: a CheckRetry may call it.
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
	if _, ok := err.(*url.Error); !ok { //nolint:errorlint // DefaultRetryPolicy does not unwrap
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
	if blame.Has[tls.RecordHeaderError](err) || blame.Has[*net.AddrError](err) { // http.Client makes ErrSchemeMismatch of some of the first
		return true
	}
	dns, ok := errors.AsType[*net.DNSError](err)
	return ok && dns.IsNotFound
}

// untrusted reports whether a certificate was rejected: by net/http, or by the user's
// VerifyConnection, which may return an error of x509.
func untrusted(err error) bool {
	return blame.Has[*tls.CertificateVerificationError](err) || blame.Has[x509.UnknownAuthorityError](err) ||
		blame.Has[x509.HostnameError](err) || blame.Has[x509.CertificateInvalidError](err)
}

// OnServerError makes c retry the responses 500 to 599, and no others. Errors are retried
// as before. Call it with a Config, or pass it to [Plugin.Override]; it replaces
// RetryResponse and CheckRetry. Methods and AnyMethod decide, as always, which requests are
// sent again: a POST only with an Idempotency-Key, or if they include it.
func OnServerError(c *Config) { c.CheckRetry, c.RetryResponse = nil, serverError }

// OnTimeout makes c retry no errors but timeouts: of an attempt, of dialing, of a read.
// It replaces RetryIf and CheckRetry. It needs a limit per attempt, as the timeout
// plugin sets it: once the request's own context has ended, nothing is retried.
func OnTimeout(c *Config) { c.CheckRetry, c.RetryIf = nil, blame.Timeout }

func serverError(resp *http.Response) bool { return resp.StatusCode >= 500 && resp.StatusCode <= 599 }

// asClientError wraps err as http.Client does, as functions for go-retryablehttp expect.
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
