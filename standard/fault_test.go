package standard_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/standard"
)

// Whoever set a deadline, the server has not answered before it.
func TestATotalTimeoutCounts(t *testing.T) {
	t.Parallel()
	for _, left := range []time.Duration{5 * time.Second, 5*time.Second - 1, 9 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, standard.Config{
				HTTP: http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
					<-req.Context().Done()
					return nil, context.Cause(req.Context())
				})},
				Limit: ratelimit.ClientConfig{MaxWait: -1},
			})
			c.Limit.Cooldown().Hold(t.Context(), "a.test:80", 30*time.Second-left)
			_, err := c.Get("http://a.test/")
			require.ErrorIs(t, err, timeout.ErrTimeout)
			require.EqualValues(t, 1, c.Breaker.Stats().Failures, left)
			require.EqualValues(t, 2, c.Limit.Cooldown().Stats().Holds, left)
		})
	}
}

func TestWhatTheCallerIsAtFaultForSaysNothingOfTheServer(t *testing.T) {
	t.Parallel()
	errRead := errors.New("the disk is gone")
	for name, change := range map[string]func(*http.Request){
		"a read fails": func(r *http.Request) { r.Body = io.NopCloser(iotest.ErrReader(errRead)) },
		"with GetBody": func(r *http.Request) {
			r.Body = io.NopCloser(iotest.ErrReader(errRead))
			r.GetBody = func() (io.ReadCloser, error) { return r.Body, nil }
		},
		"it ends early":       func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 10 },
		"newline in a header": func(r *http.Request) { r.Header.Set("X-A", "a\nb") },
		"name of a header":    func(r *http.Request) { r.Header["X A"] = []string{"b"} },
		"method":              func(r *http.Request) { r.Method = "PUT IT" },
		"name of a trailer":   func(r *http.Request) { r.Trailer = http.Header{"X A": nil} },
	} {
		synctest.Test(t, func(t *testing.T) {
			base := &http.Transport{}
			c := newClient(t, standard.Config{HTTP: http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
				if req.Body == nil {
					return base.RoundTrip(req)
				}
				defer func() { _ = req.Body.Close() }()
				if n, err := io.Copy(io.Discard, req.Body); err != nil || n != max(req.ContentLength, 0) {
					return nil, errors.Join(errors.New("the body is not whole"), err)
				}
				return base.RoundTrip(req)
			})}})
			req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPut, "http://a.test/", nil))
			change(req)
			c.Limit.Cooldown().Hold(t.Context(), "a.test:80", time.Second)
			_, err := c.Do(req)
			require.Error(t, err)
			require.Zero(t, c.Breaker.Stats().Failures, "%s: %v", name, err)
			require.EqualValues(t, 1, c.Limit.Cooldown().Stats().Holds, "%s: %v", name, err)
			if name != "with GetBody" {
				require.Zero(t, c.Retry.Stats().Retries, "%s: %v", name, err)
			}
		})
	}
}
