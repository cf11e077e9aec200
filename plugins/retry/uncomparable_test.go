package retry_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

// A list is an error that == cannot compare, as those of go/scanner and of many
// validators.
type list []string

func (l list) Error() string { return l[0] }

func TestErrorsThatCannotBeCompared(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]*retry.Plugin{
		"default": quick(retry.Config{}),
		"CheckRetry returns the error itself": quick(retry.Config{CheckRetry: func(_ context.Context, _ *http.Response, err error) (bool, error) {
			return false, errors.Unwrap(err)
		}}),
	} {
		rt := p.Transport(resiltest.NewScript(resiltest.Reply{Err: list{"invalid"}}))
		_, err := rt.RoundTrip(request(t.Context(), http.MethodGet, nil))
		var got list
		require.ErrorAs(t, err, &got, name)
	}
}

func TestAnErrorOfCheckRetryTogetherWithTrueReplacesNoResponse(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := quick(retry.Config{MaxAttempts: 1, CheckRetry: func(context.Context, *http.Response, error) (bool, error) {
		cancel()
		return true, errors.New("unexpected status")
	}})
	resp, err := do(t, p, resiltest.NewScript(status(503, 0)), request(ctx, http.MethodGet, nil))
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
}
