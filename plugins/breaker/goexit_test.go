package breaker_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/resiltest"
)

type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// OnStateChange runs when the trial is admitted (half-open), and when it ends (closed).
func TestOnStateChangeThatEndsTheGoroutine(t *testing.T) {
	t.Parallel()
	for _, at := range []breaker.State{breaker.HalfOpen, breaker.Closed} {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := core.Must(breaker.NewClient(breaker.ClientConfig{
					Initial: breaker.Open, Trials: 1, TrialTimeout: -1,
					OnStateChange: func(_ context.Context, c breaker.StateChange) {
						if c.To == at {
							runtime.Goexit()
						}
					},
				}))
				upload, answer := resiltest.NewBody("upload"), resiltest.NewBody("answer")
				rt := p.Transport(trip(func(req *http.Request) (*http.Response, error) {
					_ = req.Body.Close()
					return &http.Response{StatusCode: http.StatusOK, Body: answer, Request: req}, nil
				}))
				first := core.Must(http.NewRequest(http.MethodGet, "http://a.test/", http.NoBody))
				_, _ = rt.RoundTrip(first) // which makes the breaker
				time.Sleep(time.Hour)
				var wg sync.WaitGroup
				wg.Go(func() { _, _ = rt.RoundTrip(core.Must(http.NewRequest(http.MethodPut, "http://a.test/", upload))) })
				wg.Wait()
				require.Equal(t, 1, upload.Closes())
				if at == breaker.Closed {
					require.Equal(t, 1, answer.Closes())
				}
				_, err := rt.RoundTrip(core.Must(http.NewRequest(http.MethodGet, "http://a.test/", http.NoBody)))
				require.NoError(t, err, "no slot is taken")
			})
		})
	}
}

// The listener runs at the Close of the body, which is a success.
func TestListenerThatEndsTheGoroutine(t *testing.T) {
	t.Parallel()
	end := false
	p := core.Must(breaker.NewClient(breaker.ClientConfig{JudgeBody: true, Registry: recorded(func(core.Outcome, time.Duration) {
		if end {
			runtime.Goexit()
		}
	})}))
	answer := resiltest.NewBody("answer")
	rt := p.Transport(trip(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: answer, Request: req}, nil
	}))
	resp, err := rt.RoundTrip(core.Must(http.NewRequest(http.MethodGet, "http://a.test/", http.NoBody)))
	require.NoError(t, err)
	end = true
	var wg sync.WaitGroup
	wg.Go(func() { _ = resp.Body.Close() })
	wg.Wait()
	require.Equal(t, 1, answer.Closes())
}

type brokenBody struct{ io.Reader }

func (brokenBody) Close() error { return errReset }

func TestTheErrorOfCloseIsReturnedByAJudgedBody(t *testing.T) {
	t.Parallel()
	p := core.Must(breaker.NewClient(breaker.ClientConfig{JudgeBody: true}))
	resp, err := p.Transport(trip(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: brokenBody{strings.NewReader("answer")}, Request: req}, nil
	})).RoundTrip(core.Must(http.NewRequest(http.MethodGet, "http://a.test/", http.NoBody)))
	require.NoError(t, err)
	require.ErrorIs(t, resp.Body.Close(), errReset)
}
