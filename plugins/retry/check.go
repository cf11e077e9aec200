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

// CheckRetry is the default of ClientOptions.CheckRetry, and a function of your own can call it. It is go-retryablehttp's
// DefaultRetryPolicy, which retries errors, 429 and 5xx except 501, with these differences: 505 is not retried; 408 and 425 are retried
// once; errors that would occur again are not retried, such as those of a name that does not exist, a certificate that is not trusted, or a
// request that cannot be sent.
func CheckRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	switch {
	case resp == nil && err == nil:
		return false, nil
	case err != nil:
		if terminal(err) {
			return false, nil
		}
		if _, ok := err.(*url.Error); !ok { //nolint:errorlint // DefaultRetryPolicy does not unwrap
			err = &url.Error{Err: err}
		}
		return retryablehttp.DefaultRetryPolicy(ctx, nil, err)
	case resp.StatusCode == http.StatusRequestTimeout, resp.StatusCode == http.StatusTooEarly:
		return ctx.Err() == nil && retry.Attempt(ctx) == 1, nil
	case resp.StatusCode == http.StatusHTTPVersionNotSupported, resp.StatusCode > 599:
		return false, nil
	}
	return retryablehttp.DefaultRetryPolicy(ctx, resp, nil)
}

// terminal reports whether another attempt would fail with the same err.
func terminal(err error) bool {
	if fault := blame.Of(err); fault != nil && fault.Outcome == core.Ignored && !fault.NotSent {
		return true
	}
	dns, ok := errors.AsType[*net.DNSError](err)
	return ok && dns.IsNotFound || errors.Is(err, context.Canceled) || errors.Is(err, core.ErrConfig) ||
		errors.Is(err, http.ErrSchemeMismatch) ||
		blame.Has[tls.RecordHeaderError](err) || // http.Client makes ErrSchemeMismatch of some of them
		blame.Has[*net.AddrError](err) || blame.Has[*tls.CertificateVerificationError](err) ||
		blame.Has[x509.UnknownAuthorityError](err) || // of a VerifyConnection
		blame.Has[x509.HostnameError](err) || blame.Has[x509.CertificateInvalidError](err)
}

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
