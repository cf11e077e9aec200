package breaker_test

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
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/resiltest"
)

var errReset = errors.New("connection reset by peer")

// halves answers 200 with half a body, and then err.
func halves(err error) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		resp := respond(req, http.StatusOK)
		resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(err)))
		return resp, nil
	})
}

func TestJudgeBody(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name             string
		ctx              context.Context
		base             http.RoundTripper
		use              func(io.ReadCloser)
		success, failure uint64
		ignored          uint64
		bodyless         bool // it is judged by the headers
	}{
		{name: "read to the end", base: halves(io.EOF), success: 1},
		{name: "fails", base: halves(errReset), failure: 1},
		{name: "cut short", base: halves(io.ErrUnexpectedEOF), failure: 1},
		{name: "our timeout", base: halves(&timeout.Error{}), failure: 1},
		{name: "closed early", base: halves(errReset), use: func(b io.ReadCloser) { _, _ = b.Read(make([]byte, 1)) }, success: 1},
		{name: "read when closed", base: halves(errReset), use: func(b io.ReadCloser) { _ = b.Close(); _, _ = io.ReadAll(b) }, success: 1},
		{name: "the caller cancels", ctx: canceled, base: halves(context.Canceled), ignored: 1},
		{name: "429", base: resiltest.NewScript(resiltest.Reply{Status: 429, Body: "wait"}), success: 1},
		{name: "503", base: answers(503, ""), failure: 1, bodyless: true},
		{name: "no body", base: roundTrip(func(req *http.Request) (*http.Response, error) {
			resp := respond(req, http.StatusNoContent)
			resp.Body = http.NoBody
			return resp, nil
		}), success: 1, bodyless: true},
		{name: "upgraded", base: roundTrip(func(req *http.Request) (*http.Response, error) {
			resp := respond(req, http.StatusSwitchingProtocols)
			resp.Body = conn{resp.Body}
			return resp, nil
		}), use: func(b io.ReadCloser) { _, _ = b.(io.Writer).Write(nil) }, success: 1, bodyless: true},
		{name: "writable without a 101", base: roundTrip(func(req *http.Request) (*http.Response, error) {
			resp := respond(req, http.StatusOK) // to CONNECT
			resp.Body = conn{resp.Body}
			return resp, nil
		}), use: func(b io.ReadCloser) { _, _ = b.(io.Writer).Write(nil) }, success: 1, bodyless: true},
		{name: "rejected further in", base: roundTrip(func(req *http.Request) (*http.Response, error) {
			return client.Reject(req, http.StatusServiceUnavailable, core.ErrRejected), nil
		}), ignored: 1, bodyless: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, judge := range []bool{true, false} {
				p := newClient(t, breaker.ClientConfig{JudgeBody: judge})
				ctx := tt.ctx
				if ctx == nil {
					ctx = t.Context()
				}
				resp, err := get(ctx, p.Transport(tt.base), "https://"+host)
				require.NoError(t, err)
				stats := func() [3]uint64 {
					s := p.For(host).Stats()
					return [3]uint64{s.Successes, s.Failures, s.Ignored}
				}
				atHeaders := stats()
				if tt.use != nil {
					tt.use(resp.Body)
				} else {
					_, _ = io.ReadAll(resp.Body)
					_, _ = io.ReadAll(resp.Body) // it fails again
				}
				require.NoError(t, resp.Body.Close())
				require.NoError(t, resp.Body.Close())
				if !judge {
					require.Equal(t, atHeaders, stats())
					continue
				}
				require.Equal(t, [3]uint64{tt.success, tt.failure, tt.ignored}, stats())
				require.Equal(t, tt.bodyless, atHeaders == stats())
			}
		})
	}
}

type conn struct{ io.ReadCloser }

func (conn) Write(p []byte) (int, error) { return len(p), nil }

func TestJudgeBodyOpensTheBreakerAndClosesTheBodyOnce(t *testing.T) {
	t.Parallel()
	p := newClient(t, breaker.ClientConfig{JudgeBody: true, Window: 2})
	rt := p.Transport(halves(errReset))
	for range 2 {
		resp, err := get(t.Context(), rt, "https://"+host)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.Equal(t, errReset, err)
		require.Equal(t, "half", string(text))
		require.NoError(t, resp.Body.Close())
	}
	require.ErrorIs(t, refused(t, rt), breaker.ErrOpen)
}

// A trial keeps its slot until its body has ended, or its time is over; what comes
// later decides nothing.
func TestATrialKeepsItsSlotUntilItsBodyHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newClient(t, breaker.ClientConfig{JudgeBody: true, Trials: 1, TrialTimeout: 10 * time.Second, Initial: breaker.HalfOpen})
		rt := p.Transport(halves(errReset))
		first, err := get(t.Context(), rt, "https://"+host)
		require.NoError(t, err)
		require.ErrorIs(t, refused(t, rt), breaker.ErrOpen)
		time.Sleep(11 * time.Second)
		second, err := get(t.Context(), rt, "https://"+host)
		require.NoError(t, err)
		_, err = io.ReadAll(first.Body)
		require.Equal(t, errReset, err)
		require.Equal(t, breaker.HalfOpen, p.For(host).State(), "too late")
		require.NoError(t, second.Body.Close())
		require.Equal(t, breaker.Closed, p.For(host).State())
		require.NoError(t, first.Body.Close())
		require.Equal(t, breaker.Closed, p.For(host).State())
	})
}

func TestJudgeBodyAsksAgain(t *testing.T) {
	t.Parallel()
	var asked []error
	ask := func(_ context.Context, resp *http.Response, err error) core.Outcome {
		asked = append(asked, err)
		if err != nil && resp != nil {
			t.Error("no response with an error")
		}
		return core.Success
	}
	p := newClient(t, breaker.ClientConfig{JudgeBody: true, Classify: ask})
	rt := p.Transport(halves(errReset))
	read := func(ctx context.Context) {
		resp, err := get(ctx, rt, "https://"+host)
		require.NoError(t, err)
		_, err = io.ReadAll(resp.Body)
		require.Equal(t, errReset, err)
	}
	read(t.Context())
	require.Equal(t, []error{nil, errReset}, asked)
	require.EqualValues(t, 1, p.For(host).Stats().Successes)
	read(p.Override(t.Context(), func(c *breaker.ClientCall) {
		rest := c.Classify
		c.Classify = func(ctx context.Context, resp *http.Response, err error) core.Outcome {
			if err != nil {
				return core.Failure
			}
			return rest(ctx, resp, err)
		}
	}))
	require.Equal(t, []error{nil, errReset, nil}, asked)
	require.EqualValues(t, 1, p.For(host).Stats().Failures)
}

func TestJudgeBodyWhereThatPanics(t *testing.T) {
	t.Parallel()
	p := newClient(t, breaker.ClientConfig{JudgeBody: true, Trials: 1, Initial: breaker.HalfOpen, Classify: func(_ context.Context, _ *http.Response, err error) core.Outcome {
		if err != nil {
			panic("classify")
		}
		return core.Success
	}})
	rt := p.Transport(halves(errReset))
	for range 2 { // the slot comes back
		resp, err := get(t.Context(), rt, "https://"+host)
		require.NoError(t, err)
		require.PanicsWithValue(t, "classify", func() { _, _ = io.ReadAll(resp.Body) })
		require.NoError(t, resp.Body.Close())
		require.Equal(t, breaker.HalfOpen, p.For(host).State())
	}
}

func TestATripIsNotPutOffToTheBody(t *testing.T) {
	t.Parallel()
	p := newClient(t, breaker.ClientConfig{JudgeBody: true, Trip: breaker.TripOnRetryAfter, SyntheticResponse: true})
	rt := p.Transport(answers(http.StatusTooManyRequests, "7"))
	_, err := get(t.Context(), rt, "https://"+host)
	require.NoError(t, err)
	resp, err := get(t.Context(), rt, "https://"+host)
	require.NoError(t, err)
	require.ErrorIs(t, client.Rejected(resp), breaker.ErrOpen)
	require.Equal(t, breaker.Open, p.For(host).State())
}

type stalled struct{ ctx context.Context }

func (s stalled) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }
func (stalled) Close() error               { return nil }

func TestAnOverrideThatIsNilChangesNothing(t *testing.T) {
	t.Parallel()
	require.Equal(t, t.Context(), newClient(t, breaker.ClientConfig{}).Override(t.Context(), nil))
	require.Equal(t, t.Context(), core.Must(breaker.NewServer(breaker.ServerConfig{})).Override(t.Context(), nil))
}

func TestAKeyThatPanicsLeavesNoBodyOpen(t *testing.T) {
	t.Parallel()
	upload := resiltest.NewBody("upload")
	rt := newClient(t, breaker.ClientConfig{Key: func(*http.Request) string { panic("key") }}).Transport(answers(200, ""))
	req := core.Must(http.NewRequestWithContext(t.Context(), http.MethodPut, "https://"+host, upload))
	require.PanicsWithValue(t, "key", func() { _, _ = rt.RoundTrip(req) })
	require.Equal(t, 1, upload.Closes())
}
