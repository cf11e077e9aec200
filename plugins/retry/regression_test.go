package retry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	coreretry "github.com/gresil/gresil/core/retry"
	"github.com/gresil/gresil/internal/eventtest"
	"github.com/gresil/gresil/internal/registry"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/resiltest"
)

func TestStatus600IsNo5xx(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]bool{500: true, 599: true, 600: false, 999: false} {
		again, err := retry.DefaultCheckRetry(t.Context(), &http.Response{StatusCode: code}, nil)
		require.Equal(t, want, again, code)
		require.NoError(t, err)
	}
}

func TestFromBackoffOfTheZeroInfoDoesNotDivideByZero(t *testing.T) {
	t.Parallel()
	delay := retry.FromBackoff(func(least, _ time.Duration, n int, _ *http.Response) time.Duration {
		require.Zero(t, n)
		return least
	}, time.Second, time.Minute)
	require.Equal(t, time.Second, delay(t.Context(), retry.Info{}))
	require.Equal(t, time.Second, delay(t.Context(), retry.Info{Retry: 1}))
}

// listened returns a registry that calls f for each event, with its verdict.
func listened(f func(verdict string, e registry.Event)) *core.Registry {
	return eventtest.Registry(func(_ context.Context, e registry.Event) {
		f(map[string]string{
			"attempt failed, a retry follows": "retried", "retry succeeded": "recovered", "retries exhausted": "exhausted",
			"error is not retried": "ignored", "retry suppressed": "suppressed",
		}[e.Text], e)
	})
}

// heard returns a registry that writes down the verdicts.
func heard(all *[]string) *core.Registry {
	return listened(func(verdict string, _ registry.Event) { *all = append(*all, verdict) })
}

func TestACallWhoseGetBodyFailsIsCounted(t *testing.T) {
	t.Parallel()
	gone := errors.New("file is gone")
	for name, answer := range map[string]resiltest.Reply{"response": status(503, 7), "error": {Err: io.ErrUnexpectedEOF}} {
		var calls []string
		p := quick(retry.Config{Registry: heard(&calls)})
		req := request(t.Context(), http.MethodPut, resiltest.NewBody("x"))
		req.GetBody = func() (io.ReadCloser, error) { return nil, gone }
		resp, err := do(t, p, resiltest.NewScript(answer), req)
		if name == "response" {
			require.NoError(t, err)
			require.Equal(t, 503, resp.StatusCode)
		} else {
			require.ErrorIs(t, err, gone)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			require.EqualError(t, err, "retry: PUT was not repeated (client: GetBody: file is gone): unexpected EOF")
		}
		require.Equal(t, []string{"suppressed"}, calls, name)
		require.Equal(t, retry.Stats{Failed: 1, RetryableFailures: 1, Suppressed: suppressed(coreretry.NotReplayable)}, p.Stats(), name)
	}
}

func TestABodyThatWasAskedForInVainIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, want := range map[string]int{"deadline": 1, "last attempt": 2} {
			var fresh []*resiltest.Body
			p := quick(retry.Config{})
			req := request(t.Context(), http.MethodPut, resiltest.NewBody("x"))
			req.GetBody = func() (io.ReadCloser, error) {
				fresh = append(fresh, resiltest.NewBody("x"))
				return fresh[len(fresh)-1], nil
			}
			if name == "deadline" {
				p = quick(retry.Config{MaxElapsed: time.Second, Backoff: doubling(), RetryResponse: func(resp *http.Response) bool {
					time.Sleep(time.Second)
					return resp.StatusCode == http.StatusServiceUnavailable
				}})
			}
			_, err := do(t, p, resiltest.NewScript(status(503, 0)), req)
			require.NoError(t, err)
			require.Len(t, fresh, want, name)
			for _, b := range fresh {
				require.Equal(t, 1, b.Closes(), name)
			}
		}
	})
}

func TestACallWhoseModifyRequestFailsIsCounted(t *testing.T) {
	t.Parallel()
	broken := errors.New("no key to sign with")
	var calls []string
	p := quick(retry.Config{Registry: heard(&calls), ModifyRequest: func(*http.Request, int) error { return broken }})
	_, err := do(t, p, resiltest.NewScript(status(503, 0)), get(t))
	require.Equal(t, broken, err)
	require.Equal(t, []string{"retried", "ignored"}, calls)
	require.Equal(t, retry.Stats{FailedRetried: 1, Retries: 1, RetryableFailures: 1, FinalFailures: 1}, p.Stats())
}

func TestACallWhoseUploadIsReadAfterTheDecisionIsCounted(t *testing.T) {
	t.Parallel()
	for name, failed := range map[string]error{"response": nil, "error": io.ErrUnexpectedEOF} {
		var upload io.ReadCloser
		var calls []string
		p := quick(retry.Config{
			Registry: heard(&calls),
			Delay: func(context.Context, retry.Info) time.Duration {
				_, _ = upload.Read(make([]byte, 1)) // the transport is still sending it
				return 0
			},
		})
		b := resiltest.NewBody("x")
		resp, err := p.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
			upload = req.Body
			if failed != nil {
				return nil, failed
			}
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Request: req}, nil
		})).RoundTrip(request(t.Context(), http.MethodPut, b))
		if failed == nil {
			require.NoError(t, err)
			require.Equal(t, 503, resp.StatusCode)
			require.NoError(t, resp.Body.Close())
		} else {
			require.ErrorIs(t, err, client.ErrNotReplayable)
			require.ErrorIs(t, err, failed)
		}
		require.NoError(t, upload.Close())
		require.Equal(t, 1, b.Closes(), name)
		require.Equal(t, []string{"retried", "suppressed"}, calls, name)
		require.Equal(t, retry.Stats{Failed: 1, RetryableFailures: 2, Suppressed: suppressed(coreretry.NotReplayable)}, p.Stats(), name)
	}
}

// neverError is a rejection that waiting does not cure.
type neverError struct{}

func (neverError) Error() string             { return "above the limit" }
func (neverError) Is(target error) bool      { return target == core.ErrRejected }
func (neverError) RetryAfter() time.Duration { return -1 }

func TestARejectionForGoodIsNotRepeated(t *testing.T) {
	t.Parallel()
	retries, err := retry.New(retry.Config{RetryRejected: true, Backoff: backoff.Constant{}})
	require.NoError(t, err)
	for want, rejection := range map[int]error{1: neverError{}, 3: core.ErrRejected} {
		sent := 0
		base := refuses(func() error { sent++; return rejection })
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.test/", http.NoBody)
		require.NoError(t, err)
		_, err = retries.Transport(base).RoundTrip(req)
		require.ErrorIs(t, err, core.ErrRejected)
		require.Equal(t, want, sent)
	}
}

type refuses func() error

func (f refuses) RoundTrip(*http.Request) (*http.Response, error) { return nil, f() }

// A response that stands for a rejection is one for core/retry too: it is not
// made, pays nothing and costs nothing.
func TestARejectionWithAResponseIsNoAttempt(t *testing.T) {
	t.Parallel()
	budget := core.Must(retry.NewBudget(1, 3))
	var seen []error
	p := quick(retry.Config{RetryRejected: true, Budget: budget, OnRetry: func(_ context.Context, r retry.Retry) {
		seen = append(seen, r.Err)
	}})
	s := resiltest.NewScript(reject(core.ErrRejected))
	resp, err := do(t, p, s, get(t))
	require.NoError(t, err)
	require.Equal(t, core.ErrRejected, client.Rejected(resp))
	require.Equal(t, 3, s.Calls())
	require.Equal(t, 3, budget.Left(), "nothing paid in, nothing taken out")
	require.Len(t, seen, 2)
	for _, err := range seen {
		require.ErrorIs(t, err, core.ErrRejected)
		require.EqualError(t, err, "retry: status 503 Service Unavailable")
	}

	s = resiltest.NewScript(reject(core.ErrRejected), resiltest.Reply{Err: core.ErrRejected})
	_, err = do(t, p, s, get(t))
	require.ErrorIs(t, err, core.ErrRejected, "nothing was sent")

	s = resiltest.NewScript(status(503, 0), reject(core.ErrRejected), resiltest.Reply{Err: core.ErrRejected})
	_, err = do(t, p, s, get(t))
	require.NotErrorIs(t, err, core.ErrRejected)
	e, ok := errors.AsType[*retry.StatusError](err)
	require.True(t, ok)
	require.NoError(t, e.Unwrap(), "the one that was sent")
}

func TestARequestThatCannotBeModifiedCostsNothing(t *testing.T) {
	t.Parallel()
	budget := core.Must(retry.NewBudget(1, 0))
	broken := errors.New("no key")
	p := quick(retry.Config{Budget: budget, ModifyRequest: func(*http.Request, int) error { return broken }})
	_, err := do(t, p, resiltest.NewScript(status(503, 0)), get(t))
	require.Equal(t, broken, err)
	require.Equal(t, 1, budget.Left())
	require.Equal(t, retry.Stats{FailedRetried: 1, Retries: 1, RetryableFailures: 1, FinalFailures: 1}, p.Stats())
}

func TestARejectionOfARequestThatIsCanceledIsNoAttempt(t *testing.T) {
	t.Parallel()
	budget := core.Must(retry.NewBudget(1, 0))
	p := quick(retry.Config{Budget: budget})
	ctx, cancel := context.WithCancel(t.Context())
	base := refusal(func(req *http.Request) (*http.Response, error) {
		cancel()
		return client.Reject(req, http.StatusServiceUnavailable, core.ErrRejected), nil
	})
	resp, err := do(t, p, base, get(t).WithContext(ctx))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Zero(t, budget.Left())
	require.Zero(t, p.Stats().Succeeded)
}

type refusal func(req *http.Request) (*http.Response, error)

func (f refusal) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestAMapThatPanicsLeavesNoBodyOpen(t *testing.T) {
	t.Parallel()
	s := resiltest.NewScript(status(200, 9))
	p := quick(retry.Config{Map: func(*http.Response, error) (*http.Response, error) { panic("map") }})
	require.PanicsWithValue(t, "map", func() { _, _ = p.Transport(s).RoundTrip(get(t)) })
	require.Equal(t, []int{1}, s.Closes())
}
