package timeout_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
)

type halfCloser struct {
	io.ReadWriteCloser
	closed *int
}

func (u halfCloser) CloseWrite() error { *u.closed++; return nil }

type answersWith func(*http.Request) (*http.Response, error)

func (f answersWith) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestAnUpgradedConnectionCanEndOneDirection(t *testing.T) {
	t.Parallel()
	closed := 0
	for _, body := range []io.ReadCloser{halfCloser{nil, &closed}, struct{ io.ReadWriteCloser }{}} {
		base := answersWith(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: body, Request: req}, nil
		})
		p := core.Must(timeout.NewAttempt(timeout.Config{Limit: time.Minute}))
		req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.test/", nil))
		resp, err := p.Transport(base).RoundTrip(req)
		require.NoError(t, err)
		client.OnBodyEnd(resp, func() {})
		half, ok := resp.Body.(interface{ CloseWrite() error })
		require.True(t, ok)
		if err := half.CloseWrite(); closed == 0 || body != (halfCloser{nil, &closed}) {
			require.ErrorIs(t, err, http.ErrNotSupported)
		} else {
			require.NoError(t, err)
		}
	}
	require.Equal(t, 1, closed)
}
