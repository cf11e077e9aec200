package timeout_test

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
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/resiltest"
)

func TestABodyUnderANearerOuterLimitIsReadAsItIs(t *testing.T) {
	t.Parallel()
	broken := errors.New("reset")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, &timeout.Error{Name: "outer", Limit: time.Minute})
	defer cancel()
	p := core.Must(timeout.NewAttempt(timeout.Config{Limit: time.Hour, CutBody: true}))
	for _, end := range []error{io.EOF, io.ErrUnexpectedEOF, broken} {
		body := resiltest.NewBody("")
		resp, err := get(t, ctx, p.Transport(stub(func(req *http.Request) (*http.Response, error) {
			resp := answer(req, nil)
			resp.Body = struct {
				io.Reader
				io.Closer
			}{iotest.ErrReader(end), body}
			return resp, nil
		})))
		require.NoError(t, err)
		_, err = resp.Body.Read(make([]byte, 1))
		require.Equal(t, end, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 1, body.Closes())
	}
	var upgraded io.ReadCloser = halfCloser{}
	resp, err := get(t, ctx, p.Transport(stub(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: upgraded, Request: req}, nil
	})))
	require.NoError(t, err)
	require.Equal(t, upgraded, resp.Body)
}

// The end of a body must stay io.EOF, or its reader reports an error.
func TestABodyThatEndsAfterTheOuterLimitHasEndedWell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, &timeout.Error{Limit: time.Second})
		defer cancel()
		resp, err := get(t, ctx, core.Must(timeout.NewAttempt(timeout.Config{CutBody: true})).Transport(stub(func(req *http.Request) (*http.Response, error) {
			return answer(req, io.NopCloser(strings.NewReader("all of it"))), nil
		})))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "all of it", string(text))
		require.NoError(t, resp.Body.Close())
	})
}
