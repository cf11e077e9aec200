package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
)

func TestFiveXXFailsFourXXDoesNot(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]core.Outcome{
		101: core.Success, 200: core.Success, 304: core.Success, 400: core.Success, 401: core.Success, 404: core.Success,
		408: core.Success, 429: core.Success, 499: core.Success,
		500: core.Failure, 502: core.Failure, 503: core.Failure, 504: core.Failure, 507: core.Failure, 599: core.Failure,
		501: core.Success, 505: core.Success,
	} {
		got := client.Classify(t.Context(), &http.Response{StatusCode: status}, nil)
		require.Equal(t, want, got, status)
	}
	require.Equal(t, core.Failure, client.Classify(t.Context(), nil, nil))
}

// limit is what core/timeout sets as a cause: it is a timeout, and says whose.
type limit struct{}

func (limit) Error() string        { return "timeout: api: 1s is over" }
func (limit) Timeout() bool        { return true }
func (limit) Is(target error) bool { return target == context.DeadlineExceeded }

func TestClassifyErrorsByTheCallsOwnContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		live := t.Context()
		cancelled, cancel := context.WithCancel(live)
		cancel()
		because, cancelCause := context.WithCancelCause(live)
		cancelCause(&url.Error{Op: "Get", Err: os.ErrDeadlineExceeded}) // as errgroup does for a sibling that timed out
		ended := func(ctx context.Context, cancel context.CancelFunc) context.Context {
			t.Cleanup(cancel)
			time.Sleep(2 * time.Second)
			return ctx
		}
		deadline := ended(context.WithTimeout(live, time.Second))
		ours := ended(context.WithTimeoutCause(live, time.Second, limit{}))
		other := ended(context.WithTimeoutCause(live, time.Second, errors.New("no timeout by its own word")))

		for name, tc := range map[string]struct {
			ctx  context.Context
			err  error
			want core.Outcome
		}{
			"refused":                             {live, errors.New("connection refused"), core.Failure},
			"broken off":                          {live, io.ErrUnexpectedEOF, core.Failure},
			"attempt timeout further in":          {live, limit{}, core.Failure},
			"somebody else's cancellation":        {live, context.Canceled, core.Failure},
			"a deadline inside of the transport":  {live, context.DeadlineExceeded, core.Failure},
			"caller cancelled":                    {cancelled, context.Canceled, core.Ignored},
			"caller cancelled, any error":         {cancelled, io.ErrUnexpectedEOF, core.Ignored},
			"caller cancelled, cause a timeout":   {because, context.Cause(because), core.Ignored},
			"caller's deadline":                   {deadline, context.DeadlineExceeded, core.Failure},
			"caller's deadline, cause no timeout": {other, context.Cause(other), core.Failure},
			"our own total timeout":               {ours, context.Cause(ours), core.Failure},
			"our own total timeout, any error":    {ours, io.ErrUnexpectedEOF, core.Failure},
			"rejected":                            {live, fmt.Errorf("breaker: %w", core.ErrRejected), core.Ignored},
			"rejected under our timeout":          {ours, fmt.Errorf("breaker: %w", core.ErrRejected), core.Ignored},
		} {
			require.Equal(t, tc.want, client.Classify(tc.ctx, nil, tc.err), name)
		}
		require.Equal(t, core.Success, client.Classify(cancelled, &http.Response{StatusCode: http.StatusOK}, nil), "it did come")
		require.Equal(t, core.Failure, client.Classify(cancelled, &http.Response{StatusCode: http.StatusInternalServerError}, nil))
	})
}

func TestClassifyASyntheticResponseAsTheRejectionItIs(t *testing.T) {
	t.Parallel()
	for _, status := range []int{429, 501, 503} {
		resp := client.Reject(request(t, http.MethodGet, nil), status, core.ErrRejected)
		require.Equal(t, core.Ignored, client.Classify(t.Context(), resp, nil), status)
	}
}

type http2GoAwayError struct{ ErrCode uint32 }

func (http2GoAwayError) Error() string { return "GOAWAY" }

func TestAServerThatAsksForCalmIsUpHoweverItsErrorIsWrapped(t *testing.T) {
	t.Parallel()
	for code, want := range map[uint32]core.Outcome{0xb: core.Success, 0: core.Failure} {
		err := error(http2GoAwayError{code})
		require.Equal(t, want, client.Classify(t.Context(), nil, err), code)
		require.Equal(t, want, client.Classify(t.Context(), nil, fmt.Errorf("first: %w", err)), code)
		require.Equal(t, want, client.Classify(t.Context(), nil, errors.Join(io.EOF, err)), code)
	}
}
