package ratelimit_test

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

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/timeout"
)

// goAwayError is net/http's, whose type is not exported.
type goAwayError struct {
	LastStreamID uint32
	ErrCode      uint32
	DebugData    string
}

func (goAwayError) Error() string { return "http2: server sent GOAWAY and closed the connection" }

// afterAHold returns how many holds there are when the probe after one ended with err.
func afterAHold(t *testing.T, hold time.Duration, send func(*testing.T, http.RoundTripper), base func(*http.Request) (*http.Response, error), plugins ...client.Plugin) uint64 {
	t.Helper()
	limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{}))
	rt := client.New(roundTrip(base), append(plugins, limits)...)
	limits.Cooldown().Hold(t.Context(), "a.test:80", hold)
	send(t, rt)
	return limits.Cooldown().Stats().Holds
}

func TestAProbeThatFailsByItsCallersFaultHoldsNothing(t *testing.T) {
	t.Parallel()
	reads := func(req *http.Request) (*http.Response, error) {
		_, err := io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
		if err == nil {
			err = errors.New("connection reset")
		}
		return nil, err
	}
	put := func(change func(*http.Request), body io.Reader) func(*testing.T, http.RoundTripper) {
		return func(t *testing.T, rt http.RoundTripper) {
			t.Helper()
			req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPut, "http://a.test/", body))
			if change != nil {
				change(req)
			}
			_, err := rt.RoundTrip(req)
			require.Error(t, err)
		}
	}
	for name, c := range map[string]struct {
		send  func(*testing.T, http.RoundTripper)
		holds uint64
	}{
		"the server's fault": {put(nil, strings.NewReader("abc")), 2},
		"a read fails":       {put(nil, iotest.ErrReader(errors.New("disk"))), 1},
		"it ends early":      {put(func(r *http.Request) { r.ContentLength = 10 }, io.MultiReader(strings.NewReader("abc"))), 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			require.Equal(t, c.holds, afterAHold(t, time.Second, c.send, reads), name)
		})
	}
}

func TestAProbeThatADeadlineEndsHolds(t *testing.T) {
	t.Parallel()
	for _, left := range []time.Duration{5 * time.Second, 5*time.Second - 1} {
		synctest.Test(t, func(t *testing.T) {
			total := timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: 10 * time.Second})), timeout.ClientOptions{})
			got := afterAHold(t, 10*time.Second-left, func(t *testing.T, rt http.RoundTripper) {
				t.Helper()
				_, err := rt.RoundTrip(core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", nil)))
				require.ErrorIs(t, err, timeout.ErrTimeout)
			}, func(req *http.Request) (*http.Response, error) {
				<-req.Context().Done()
				return nil, context.Cause(req.Context())
			}, total)
			require.EqualValues(t, 2, got, left)
		})
	}
}

func TestEnhanceYourCalmHoldsAsA429(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		require.EqualValues(t, 2, afterAHold(t, time.Second, func(t *testing.T, rt http.RoundTripper) {
			t.Helper()
			_, err := rt.RoundTrip(core.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", nil)))
			require.Error(t, err)
		}, func(*http.Request) (*http.Response, error) { return nil, goAwayError{ErrCode: 11} }))
	})
}

// A bubble does not end while a goroutine of it waits.
func TestTheCancelChannelOfARequestThatWaitedIsNotWatchedAfterwards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{Limit: ratelimit.TokenBucket(1, time.Second, 1)}))
		rt := limits.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
		}))
		start := time.Now()
		for range 2 {
			req := core.Must(http.NewRequest(http.MethodGet, "http://a.test/", http.NoBody))
			req.Cancel = make(chan struct{}) //nolint:staticcheck // it is what is tested
			_, err := rt.RoundTrip(req)
			require.NoError(t, err)
		}
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestABodyIsClosedOnceThoughTheTransportPanics(t *testing.T) {
	t.Parallel()
	limits := core.Must(ratelimit.NewClient(ratelimit.ClientConfig{}))
	for name, closes := range map[string]bool{"closed before the panic": true, "not closed": false} {
		body := resiltest.NewBody("x")
		rt := limits.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
			if closes {
				_ = req.Body.Close()
			}
			panic("transport")
		}))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://a.test", body)
		require.NoError(t, err)
		require.PanicsWithValue(t, "transport", func() { _, _ = rt.RoundTrip(req) }, name)
		require.Equal(t, 1, body.Closes(), name)
		require.Same(t, body, req.Body, "the request is never changed")
	}
}
