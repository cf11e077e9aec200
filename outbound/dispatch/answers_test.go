package dispatch_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/outbound/dispatch"
)

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A slowBody has its text after a while, whether or not it is closed.
type slowBody struct {
	io.Reader
	delay  time.Duration
	closed int
}

func (b *slowBody) Read(p []byte) (int, error) {
	time.Sleep(b.delay)
	return b.Reader.Read(p)
}

func (b *slowBody) Close() error { b.closed++; return nil }

func jsonRefusal(body io.ReadCloser) *http.Response {
	return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"15"}, "Content-Type": {"application/json"}}, Body: body}
}

func TestARefusalWithASlowBodyHoldsSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, start := core.Must(dispatch.New(config{})), time.Now()
		var sent []time.Duration
		transport := dispatch.RoundTripper(d, transportFunc(func(*http.Request) (*http.Response, error) {
			if sent = append(sent, time.Since(start)); len(sent) == 1 {
				return jsonRefusal(&slowBody{Reader: strings.NewReader("{}"), delay: time.Minute}), nil
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}), nil)
		done := make(chan error)
		go func() {
			_, err := transport.RoundTrip(post(t, nil))
			done <- err
		}()
		time.Sleep(100 * time.Millisecond) // the body is awaited for longer
		_, err := transport.RoundTrip(post(t, nil))
		require.NoError(t, err)
		require.NoError(t, <-done)
		require.Len(t, sent, 3)
		require.Equal(t, 15*time.Second+pad, sent[1], "from the arrival of the header on")
		time.Sleep(2 * time.Minute) // until the body ends
	})
}

func TestABodyThatComesWithItsHeaderCanNarrowTheScope(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		quota := adsBody(`{"errorCode":{"quotaError":"RESOURCE_EXHAUSTED"},"details":{"quotaErrorDetails":{"rateScope":"ACCOUNT","retryDelay":"900s"}}}`)
		d, start := core.Must(dispatch.New(config{Account: ownAccount, Attempts: 1})), time.Now()
		transport := dispatch.RoundTripper(d, transportFunc(func(*http.Request) (*http.Response, error) {
			return jsonRefusal(&slowBody{Reader: strings.NewReader(quota), delay: time.Millisecond}), nil
		}), func(*http.Request) string { return "a" })
		resp, err := transport.RoundTrip(post(t, nil))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, []dispatch.Hold{{Scope: dispatch.ScopeAccount, Account: "a", Until: start.Add(15*time.Minute + pad)}}, d.Snapshot().Held)
	})
}

func TestASlowBodyCanBeReadAfterItsCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		body := &slowBody{Reader: strings.NewReader(strings.Repeat("x", 1000)), delay: time.Minute}
		resp := jsonRefusal(body)
		require.Error(t, dispatch.CheckResponse(resp))
		require.Equal(t, 500*time.Millisecond, time.Since(start))
		require.Len(t, core.Must(io.ReadAll(resp.Body)), 1000)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 1, body.closed)
	})
}

func TestAPanicOfABodyContinuesInTheCaller(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, "read", func() { _ = dispatch.CheckResponse(jsonRefusal(io.NopCloser(stalled{}))) })
}

func TestAClassifierThatPanicsLeavesNoBodyOpen(t *testing.T) {
	t.Parallel()
	d := newDispatcher(t, config{Classify: func(error) (dispatch.Limited, bool) { panic("c") }})
	body := &slowBody{Reader: strings.NewReader("")}
	transport := dispatch.RoundTripper(d, transportFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusTooManyRequests, Body: body}, nil
	}), nil)
	require.Panics(t, func() { _, _ = transport.RoundTrip(post(t, nil)) })
	require.Equal(t, 1, body.closed)
}

func TestTheErrorsOfAStreamedAnswerAreRead(t *testing.T) {
	t.Parallel()
	quota := adsBody(`{"errorCode":{"quotaError":"RESOURCE_EXHAUSTED"},"details":{"quotaErrorDetails":{"rateScope":"ACCOUNT","retryDelay":"900s"}}}`)
	limit, ok := dispatch.Classify(status(429, "", `[{"results":[]},`+quota+`]`))
	require.True(t, ok)
	require.Equal(t, dispatch.Limited{RetryAfter: 15 * time.Minute, Scope: dispatch.ScopeAccount}, limit)
}

func TestADateWithoutATimeOfArrivalIsRelativeToNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(10 * time.Second).UTC().Format(http.TimeFormat)
		limit, ok := dispatch.ClassifyHTTP(&dispatch.StatusError{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {at}}})
		require.True(t, ok)
		require.Equal(t, 11*time.Second, limit.RetryAfter)
	})
}

func TestCloseFreesThePlaceOfABodyThatIsNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDispatcher(t, config{})
		transport := dispatch.RoundTripper(d, transportFunc(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: &slowBody{Reader: strings.NewReader("")}}, nil
		}), nil)
		_, err := transport.RoundTrip(post(t, nil))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		require.ErrorIs(t, d.Close(ctx), context.Canceled)
		require.Zero(t, time.Since(start))
		require.Zero(t, d.Stats().Connections)
	})
}

func TestHooksGetTheContextOfTheCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type mark struct{}
		ctx := context.WithValue(t.Context(), mark{}, 1)
		var seen []context.Context
		note := func(ctx context.Context, _ dispatch.Info) { seen = append(seen, ctx) }
		d := newDispatcher(t, config{Hooks: dispatch.Hooks{Held: note, Resumed: note}})
		_, err := dispatch.Do(ctx, d, "", newScript(answer{0, limited(time.Second)}).call)
		require.NoError(t, err)
		require.Equal(t, []context.Context{ctx, ctx}, seen)
	})
}

func TestABodyThatCannotBeRepeatedGivesUpWithItsHook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var gaveUp []dispatch.Info
		d := core.Must(dispatch.New(config{Hooks: dispatch.Hooks{GaveUp: func(_ context.Context, info dispatch.Info) { gaveUp = append(gaveUp, info) }}}))
		transport := dispatch.RoundTripper(d, transportFunc(func(req *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, req.Body)
			return jsonRefusal(io.NopCloser(strings.NewReader("{}"))), nil
		}), nil)
		resp, err := transport.RoundTrip(post(t, io.MultiReader(strings.NewReader("x"))))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Len(t, gaveUp, 1)
		require.Equal(t, 1, gaveUp[0].Attempts)
		require.Equal(t, uint64(1), d.Stats().GaveUp)
	})
}
