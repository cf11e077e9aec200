package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/blame"
)

var errDown = errors.New("connection reset")

func TestClassify_Status(t *testing.T) {
	t.Parallel()
	req := request(t, http.MethodGet, nil)
	for status, want := range map[int]core.Outcome{
		101: core.Success, 200: core.Success, 304: core.Success, 400: core.Success, 401: core.Success, 404: core.Success, 408: core.Success,
		429: core.Success, 499: core.Success, 500: core.Failure, 501: core.Success, 502: core.Failure, 503: core.Failure, 504: core.Failure,
		505: core.Success, 507: core.Failure, 599: core.Failure, 600: core.Success, 999: core.Success,
	} {
		require.Equal(t, want, client.Classify(req, &http.Response{StatusCode: status}, nil), status)
	}
	require.Equal(t, core.Failure, client.Classify(req, nil, nil))
}

// limit is what core/timeout sets as a cause: it is a timeout, and says whose.
type limit struct{}

func (limit) Error() string        { return "timeout: api: 1s is over" }
func (limit) Timeout() bool        { return true }
func (limit) Is(target error) bool { return target == context.DeadlineExceeded }

type http2GoAwayError struct{ ErrCode uint32 }

func (http2GoAwayError) Error() string { return "GOAWAY" }

func TestClassify_Error(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		live := t.Context()
		canceled, cancel := context.WithCancel(live)
		cancel()
		because, cancelCause := context.WithCancelCause(live)
		cancelCause(limit{}) // as errgroup does for a sibling that timed out
		ended := func(ctx context.Context, cancel context.CancelFunc) context.Context {
			t.Cleanup(cancel)
			time.Sleep(2 * time.Second)
			return ctx
		}
		deadline := ended(context.WithTimeout(live, time.Second))
		ours := ended(context.WithTimeoutCause(live, time.Second, limit{}))
		other := ended(context.WithTimeoutCause(live, time.Second, errors.New("no timeout by its own word")))
		calm := func(code uint32) error { return http2GoAwayError{code} }

		for name, tc := range map[string]struct {
			ctx  context.Context
			err  error
			want core.Outcome
		}{
			"refused":                            {live, errors.New("connection refused"), core.Failure},
			"broken off":                         {live, io.ErrUnexpectedEOF, core.Failure},
			"attempt timeout further in":         {live, limit{}, core.Failure},
			"timeout of a connection":            {live, os.ErrDeadlineExceeded, core.Failure},
			"somebody else's cancellation":       {live, context.Canceled, core.Failure},
			"a deadline inside of the transport": {live, context.DeadlineExceeded, core.Failure},
			"caller canceled":                    {canceled, context.Canceled, core.Ignored},
			"caller canceled, any error":         {canceled, io.ErrUnexpectedEOF, core.Ignored},
			"caller canceled, cause a timeout":   {because, context.Cause(because), core.Ignored},
			"deadline":                           {deadline, context.DeadlineExceeded, core.Failure},
			"deadline, cause no timeout":         {other, context.Cause(other), core.Failure},
			"total timeout":                      {ours, context.Cause(ours), core.Failure},
			"total timeout, any error":           {ours, io.ErrUnexpectedEOF, core.Failure},
			"rejected":                           {live, fmt.Errorf("breaker: %w", core.ErrRejected), core.Ignored},
			"rejected under our timeout":         {ours, fmt.Errorf("breaker: %w", core.ErrRejected), core.Ignored},
			"a plugin that cannot be used":       {live, &core.ConfigError{}, core.Ignored},
			"ignored further in":                 {live, fmt.Errorf("pace: %w", &blame.Error{Err: errDown}), core.Ignored},
			"a failure further in":               {live, &blame.Error{Err: errDown, Outcome: core.Failure}, core.Failure},
			"calm":                               {live, calm(0xb), core.Success},
			"calm, wrapped":                      {live, errors.Join(io.EOF, fmt.Errorf("first: %w", calm(0xb))), core.Success},
			"calm, canceled":                     {canceled, calm(0xb), core.Ignored},
			"gone away":                          {live, calm(0), core.Failure},
			"header too large for HTTP/2":        {live, errors.New("http2: request header list larger than peer's advertised limit"), core.Ignored},
			"a bad trailer, on its way":          {live, fmt.Errorf("net/http: write error: %w", errors.New(`invalid Trailer key "A"`)), core.Ignored},
			"text of another library":            {live, errors.New("upstream: http2: invalid frame"), core.Failure},
		} {
			require.Equal(t, tc.want, client.Classify(request(t, http.MethodGet, nil).WithContext(tc.ctx), nil, tc.err), name)
		}
		late := request(t, http.MethodGet, nil).WithContext(canceled)
		require.Equal(t, core.Success, client.Classify(late, &http.Response{StatusCode: http.StatusOK}, nil), "it did come")
		require.Equal(t, core.Failure, client.Classify(late, &http.Response{StatusCode: http.StatusInternalServerError}, nil))
	})
}

func TestClassify_RefusedByNetHTTP(t *testing.T) {
	t.Parallel()
	one := httptest.NewServer(http.NotFoundHandler())
	defer one.Close()
	two := httptest.NewUnstartedServer(http.NotFoundHandler())
	two.EnableHTTP2 = true
	two.StartTLS()
	defer two.Close()
	for name, c := range map[string]struct {
		change func(*http.Request)
		on1    bool // HTTP/1 refuses it
		on2    bool
	}{
		"nil URL":           {func(r *http.Request) { r.URL = nil }, true, true},
		"nil Header":        {func(r *http.Request) { r.Header = nil }, true, true},
		"no Host":           {func(r *http.Request) { r.URL.Host = "" }, true, true},
		"scheme":            {func(r *http.Request) { r.URL.Scheme = "gopher" }, true, true},
		"query":             {func(r *http.Request) { r.URL.RawQuery = "a=b\nc" }, true, false},
		"opaque":            {func(r *http.Request) { r.URL.Opaque = "/a\x7f" }, true, false},
		"opaque path":       {func(r *http.Request) { r.URL.Opaque = "a" }, false, true},
		"Host":              {func(r *http.Request) { r.Host = "a\nb" }, false, true}, // HTTP/1 sends none, except to a proxy
		"no body":           {func(r *http.Request) { r.ContentLength = 3 }, true, false},
		"method":            {func(r *http.Request) { r.Method = "a b" }, true, false}, // HTTP/2 sends it on a connection that it has
		"header":            {func(r *http.Request) { r.Header.Set("A", "a\nb") }, true, true},
		"trailer":           {func(r *http.Request) { r.Trailer = http.Header{"a b": nil} }, true, true},
		"Upgrade":           {func(r *http.Request) { r.Header.Set("Upgrade", "h2c") }, false, true},
		"Connection":        {func(r *http.Request) { r.Header.Set("Connection", "x-foo") }, false, true},
		"Transfer-Encoding": {func(r *http.Request) { r.Header.Set("Transfer-Encoding", "gzip") }, false, true},
	} {
		for s, refuses := range map[*httptest.Server]bool{one: c.on1, two: c.on2} {
			if !refuses {
				continue
			}
			req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil))
			c.change(req)
			_, err := s.Client().Transport.RoundTrip(req)
			require.Error(t, err, name)
			for _, err := range []error{err, fmt.Errorf("%w: %w", errDown, &url.Error{Op: "Get", URL: "/", Err: err})} {
				require.Equal(t, core.Ignored, client.Classify(req, nil, err), "%s: %v", name, err)
			}
			require.Equal(t, core.Failure, client.Classify(req, nil, errDown), "%s: another transport sends it", name)
		}
	}
}
