package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
)

type rejection struct{ wait time.Duration }

func (r rejection) Error() string             { return "breaker: open" }
func (r rejection) Is(target error) bool      { return target == core.ErrRejected }
func (r rejection) RetryAfter() time.Duration { return r.wait }

func TestRejectAnswersAndIsMarked(t *testing.T) {
	t.Parallel()
	b := resiltest.NewBody("upload")
	req := request(t, http.MethodPost, b)
	shallow, header := snapshot(req)
	err := rejection{1500 * time.Millisecond}
	resp := client.Reject(req, http.StatusServiceUnavailable, err)
	require.Equal(t, err, client.Rejected(resp))
	require.Equal(t, "503 Service Unavailable", resp.Status)
	require.Equal(t, "2", resp.Header.Get("Retry-After"))
	require.EqualValues(t, 14, resp.ContentLength)
	require.Equal(t, "/x", resp.Request.URL.Path)
	require.Nil(t, resp.Request.Body)
	require.Equal(t, 1, b.Closes())
	requireUnchanged(t, req, shallow, header)

	// what layers above do to a response does not lose the mark
	client.OnBodyEnd(resp, func() {})
	resp.Body = io.NopCloser(resp.Body)
	resp.Header = http.Header{}
	copied := *resp
	require.Equal(t, err, client.Rejected(&copied))
	require.Equal(t, "breaker: open\n", readAll(t, resp.Body))
	require.NoError(t, resp.Body.Close())
}

func TestRejectRoundsRetryAfterUp(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]string{
		0: "1", 1: "1", time.Second: "1", time.Second + 1: "2", 90 * time.Second: "90", -1: "",
		1<<63 - 1: "9223372037",
	} {
		resp := client.Reject(request(t, http.MethodGet, nil), 503, rejection{wait})
		require.Equal(t, want, resp.Header.Get("Retry-After"), wait)
	}
	resp := client.Reject(request(t, http.MethodGet, nil), 429, fmt.Errorf("x: %w", core.ErrRejected))
	require.NotContains(t, resp.Header, "Retry-After")
}

func TestRealResponsesAreNotRejected(t *testing.T) {
	t.Parallel()
	require.NoError(t, client.Rejected(nil))
	require.NoError(t, client.Rejected(&http.Response{StatusCode: http.StatusServiceUnavailable}))
	require.NoError(t, client.Rejected(&http.Response{StatusCode: http.StatusServiceUnavailable, Request: request(t, http.MethodGet, nil)}))
}

func TestRejectionReachesTheUserOfAnHTTPClient(t *testing.T) {
	t.Parallel()
	want := errors.New("limited")
	c := &http.Client{Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
		return client.Reject(req, http.StatusTooManyRequests, want), nil
	})}
	resp, err := c.Get("http://example.test/")
	require.NoError(t, err)
	require.Equal(t, want, client.Rejected(resp))
	require.NoError(t, resp.Body.Close())
}
