package client_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
)

func TestASyntheticResponseToHEADHasNoBody(t *testing.T) {
	t.Parallel()
	resp := client.Reject(request(t, http.MethodHead, nil), http.StatusServiceUnavailable, core.ErrRejected)
	require.Equal(t, http.NoBody, resp.Body)
	require.EqualValues(t, len("rejected\n"), resp.ContentLength, "as GET would have it")
	require.Equal(t, core.ErrRejected, client.Rejected(resp))
}

func TestARealResponseToACopyOfARejectedRequestIsNotRejected(t *testing.T) {
	t.Parallel()
	resp := client.Reject(request(t, http.MethodGet, nil), http.StatusServiceUnavailable, core.ErrRejected)
	require.Equal(t, core.ErrRejected, client.Rejected(resp))
	ctx := resp.Request.Context()
	fresh, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://example.test/", nil)
	require.NoError(t, err)
	for name, req := range map[string]*http.Request{"Clone": resp.Request.Clone(ctx), "WithContext": resp.Request.WithContext(ctx), "its context": fresh} {
		answer := &http.Response{StatusCode: http.StatusInternalServerError, Request: req}
		require.NoError(t, client.Rejected(answer), name)
		require.Equal(t, core.Failure, client.Classify(ctx, answer, nil), name)
	}
	again := client.Reject(fresh, http.StatusTooManyRequests, errors.New("limited"))
	require.EqualError(t, client.Rejected(again), "limited", "the newest mark")
}

func TestDiscardWithoutALimitReads(t *testing.T) {
	t.Parallel()
	for _, most := range []int64{math.MaxInt64, math.MaxInt64 - 1} {
		b := resiltest.NewBody("hello")
		client.Discard(&http.Response{StatusCode: http.StatusServiceUnavailable, ContentLength: 5, Body: b}, client.Drain{Bytes: most})
		require.EqualValues(t, 5, b.BytesRead())
		require.Equal(t, 1, b.Closes())
	}
}

func TestClassifyKnowsNoStatusAbove599(t *testing.T) {
	t.Parallel()
	for _, status := range []int{600, 999} {
		require.Equal(t, core.Success, client.Classify(t.Context(), &http.Response{StatusCode: status}, nil), status)
	}
}

func TestAReaderThatWaitsWhileANewOneComesTakesNothingFromIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, producer := io.Pipe()
		r := client.NewReplay(request(t, http.MethodPut, source), 4)
		old, err := r.Attempt(t.Context())
		require.NoError(t, err)
		results := make(chan error, 2)
		for range 2 { // one reads the source, the other waits for it
			go func() {
				_, err := old.Body.Read(make([]byte, 5))
				results <- err
			}()
		}
		synctest.Wait()
		again, err := r.Attempt(t.Context())
		require.NoError(t, err)
		_, _ = io.WriteString(producer, "01234") // one more than is kept
		require.NoError(t, <-results)
		require.EqualError(t, <-results, "client: body is read by a later attempt")
		go func() {
			_, _ = io.WriteString(producer, "56789")
			_ = producer.Close()
		}()
		require.Equal(t, "0123456789", readAll(t, again.Body))
		require.NoError(t, again.Body.Close())
		r.Close()
	})
}

// Real sockets, since it is about those of a real transport.
func TestCloseClosesTheIdleConnectionsOfABaseOfItsOwn(t *testing.T) {
	t.Parallel()
	states := make(chan http.ConnState, 100)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) { states <- s }
	srv.Start()
	defer srv.Close()
	tr := client.New(nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
	require.NoError(t, err)
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	for _, want := range []http.ConnState{http.StateNew, http.StateActive, http.StateIdle} {
		require.Equal(t, want, <-states)
	}
	require.NoError(t, tr.Close())
	require.Equal(t, http.StateClosed, <-states, "and the test does not hang")
}

func TestReplayPrepare(t *testing.T) {
	t.Parallel()
	var fresh []*resiltest.Body
	asked := 0
	req := request(t, http.MethodPut, resiltest.NewBody("x"))
	req.GetBody = func() (io.ReadCloser, error) {
		asked++
		if asked == 2 {
			return nil, errors.New("file is gone")
		}
		fresh = append(fresh, resiltest.NewBody("x"))
		return fresh[len(fresh)-1], nil
	}
	r := client.NewReplay(req, 0)
	require.NoError(t, r.Prepare())
	require.Zero(t, asked, "the first attempt has the caller's body")
	for range 2 {
		attempt, err := r.Attempt(t.Context())
		require.NoError(t, err)
		require.Equal(t, "x", readAll(t, attempt.Body))
		require.NoError(t, attempt.Body.Close())
		if asked == 0 {
			require.NoError(t, r.Prepare())
			require.NoError(t, r.Prepare())
			require.Equal(t, 1, asked, "it has one")
		}
	}
	require.EqualError(t, r.Prepare(), "client: GetBody: file is gone")
	require.NoError(t, r.Prepare())
	r.Close()
	r.Abort()
	require.Len(t, fresh, 2)
	for _, b := range fresh {
		require.Equal(t, 1, b.Closes())
	}

	r = client.NewReplay(req, 0)
	_, err := r.Attempt(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.Prepare())
	r.Abort()
	require.Equal(t, 1, fresh[2].Closes())

	for _, b := range []io.Reader{nil, strings.NewReader("x")} {
		r = client.NewReplay(request(t, http.MethodPut, b), 0)
		_, err := r.Attempt(t.Context())
		require.NoError(t, err)
		require.NoError(t, r.Prepare())
		r.Close()
	}
	r = client.NewReplay(request(t, http.MethodPut, resiltest.NewBody("x")), -1)
	_, err = r.Attempt(t.Context())
	require.NoError(t, err)
	require.Equal(t, client.ErrNotReplayable, r.Prepare())
}

func TestABodyOfAReplayFurtherOutIsNotWrappedAgain(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{-1, 0} { // guarded as it is, and as a stream
		outer := client.NewReplay(request(t, http.MethodPut, resiltest.NewBody("x")), limit)
		first, err := outer.Attempt(t.Context())
		require.NoError(t, err)
		inner := client.NewReplay(first, -1)
		again, err := inner.Attempt(first.Context())
		require.NoError(t, err)
		require.Same(t, first, again)
	}
}

// lateContext is one whose deadline is over, and whose timer has not run yet.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now(), true }

func TestClassifyADeadlineWhoseTimerIsLate(t *testing.T) {
	t.Parallel()
	require.Equal(t, core.Failure, client.Classify(lateContext{t.Context()}, nil, errors.New("net/http: request canceled (Client.Timeout exceeded)")))
	require.Equal(t, core.Failure, client.Classify(t.Context(), nil, errors.New("reset")))
}
