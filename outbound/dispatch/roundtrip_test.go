package dispatch_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/dispatch"
)

func post(t *testing.T, body io.Reader) *http.Request {
	t.Helper()
	return core.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://vendor.test/", body))
}

func refusal(header ...string) resiltest.Reply {
	r := resiltest.Reply{Status: http.StatusTooManyRequests, Body: "slow down"}
	if len(header) > 0 {
		r.Header = http.Header{"Retry-After": header}
	}
	return r
}

func TestATransportRepeatsALimitedRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := core.Must(dispatch.New(config{}))
		s := resiltest.NewScript(refusal("15"), resiltest.Reply{Status: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"5"}}}, resiltest.Reply{Body: "done"})
		start := time.Now()
		req := post(t, strings.NewReader("order"))
		resp, err := dispatch.RoundTripper(d, s, nil).RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, 20*time.Second+2*pad, time.Since(start))
		require.Same(t, req, resp.Request)
		require.Equal(t, "done", string(core.Must(io.ReadAll(resp.Body))))
		require.Equal(t, 3, s.Calls())
		require.Equal(t, dispatch.Stats{Calls: 1, Succeeded: 1, Attempts: 3, Limited: 2, Cooldowns: 2, Dials: 1, Connections: 1, Idle: 1, Limit: 2}, d.Stats())
	})
}

// Any status from 400 on with a Retry-After is a limit. A request that the vendor may have executed is
// not sent again by that, unless it is idempotent.
func TestTransportAndRetryAfterOfStatuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status        int
		fields        http.Header
		method        string
		paused, again bool
	}{
		"403":                  {403, http.Header{"Retry-After": {"60"}}, http.MethodPost, true, true},
		"429, limit used up":   {429, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"60"}}, http.MethodPost, true, true},
		"503":                  {503, http.Header{"Retry-After": {"60.0"}}, http.MethodPost, true, true},
		"500":                  {500, http.Header{"Retry-After": {"60"}}, http.MethodPost, true, false},
		"500, idempotent":      {500, http.Header{"Retry-After": {"60"}}, http.MethodGet, true, true},
		"403 without a time":   {403, nil, http.MethodGet, false, false},
		"404, limit used up":   {404, http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"60"}}, http.MethodGet, false, false},
		"404 with a time of 0": {404, http.Header{"Retry-After": {"0"}}, http.MethodGet, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := core.Must(dispatch.New(config{}))
				s := resiltest.NewScript(resiltest.Reply{Status: c.status, Header: c.fields}, resiltest.Reply{})
				req := post(t, nil)
				req.Method = c.method
				resp, err := dispatch.RoundTripper(d, s, nil).RoundTrip(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				if want := []int{1, 2}[b2i(c.again)]; s.Calls() != want {
					t.Errorf("calls = %d, want %d", s.Calls(), want)
				}
				require.Equal(t, c.paused, d.Stats().Cooldowns == 1)
				next := post(t, nil)
				start := time.Now()
				resp, err = dispatch.RoundTripper(d, resiltest.NewScript(), nil).RoundTrip(next)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, c.paused && !c.again, time.Since(start) >= time.Minute)
				if !c.paused {
					require.EqualValues(t, 2, d.Stats().Succeeded)
				}
			})
		})
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A classifier of the user's is asked for every response from 400 on, with its body.
func TestClassifyIsAskedForEveryStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []int
		d := core.Must(dispatch.New(config{Classify: func(err error) (dispatch.Limited, bool) {
			e, ok := errors.AsType[*dispatch.StatusError](err)
			if !ok {
				return dispatch.Limited{}, false
			}
			asked = append(asked, e.StatusCode)
			return dispatch.Limited{RetryAfter: time.Minute}, strings.Contains(string(e.Body), "quota")
		}}))
		rt := dispatch.RoundTripper(d, resiltest.NewScript(
			resiltest.Reply{Status: 400, Body: `{"error":"quota"}`, Header: http.Header{"Content-Type": {"application/json"}}},
			resiltest.Reply{Status: 400, Body: `{"error":"syntax"}`, Header: http.Header{"Content-Type": {"application/json"}}},
			resiltest.Reply{Status: 500}, resiltest.Reply{Status: 302},
		), nil)
		start := time.Now()
		resp, err := rt.RoundTrip(post(t, nil))
		require.NoError(t, err)
		require.JSONEq(t, `{"error":"syntax"}`, string(core.Must(io.ReadAll(resp.Body))))
		require.Equal(t, time.Minute+pad, time.Since(start))
		for range 2 {
			resp, err := rt.RoundTrip(post(t, nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
		require.Equal(t, []int{400, 400, 500}, asked)
		require.Equal(t, dispatch.Stats{Calls: 3, Succeeded: 2, Failed: 1, Attempts: 4, Limited: 1, Cooldowns: 1, Dials: 1, Connections: 1, Idle: 1, Limit: 4}, d.Stats())
	})
}

func TestATransportReturnsTheLastRefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, body := range map[string]io.Reader{
			"attempts used up": strings.NewReader("order"),
			"no GetBody":       io.MultiReader(strings.NewReader("order")),
		} {
			d := core.Must(dispatch.New(config{Attempts: 2}))
			s := resiltest.NewScript(refusal("15"), refusal("15"))
			resp, err := dispatch.RoundTripper(d, s, nil).RoundTrip(post(t, body))
			require.NoError(t, err, name)
			require.Equal(t, http.StatusTooManyRequests, resp.StatusCode, name)
			require.Equal(t, "slow down", string(core.Must(io.ReadAll(resp.Body))), name)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, uint64(1), d.Stats().GaveUp, name)
			require.Equal(t, map[string]int{"attempts used up": 2, "no GetBody": 1}[name], s.Calls(), name)
			require.Len(t, d.Snapshot().Held, 1, name)
			require.Zero(t, d.Stats().Active, name)
		}
	})
}

func TestATransportHoldsItsPlaceUntilTheBodyEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := core.Must(dispatch.New(config{Capacity: 1}))
		rt := dispatch.RoundTripper(d, resiltest.NewScript(), nil)
		for name, end := range map[string]func(*http.Response){
			"closed": func(resp *http.Response) { _ = resp.Body.Close() },
			"read":   func(resp *http.Response) { _, _ = io.ReadAll(resp.Body) },
		} {
			resp, err := rt.RoundTrip(post(t, nil))
			require.NoError(t, err)
			start := time.Now()
			time.AfterFunc(time.Minute, func() { end(resp) })
			next, err := rt.RoundTrip(post(t, nil))
			require.NoError(t, err)
			require.Equal(t, time.Minute, time.Since(start), name)
			require.NoError(t, next.Body.Close())
		}
		require.Zero(t, d.Stats().Active)
	})
}

func TestATransportFreesItsPlaceWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := core.Must(dispatch.New(config{Capacity: 1}))
		rt := dispatch.RoundTripper(d, resiltest.NewScript(), func(req *http.Request) string { return req.Host })
		ctx, cancel := context.WithCancel(t.Context())
		forgotten, err := rt.RoundTrip(post(t, nil).WithContext(ctx))
		require.NoError(t, err)
		cancel()
		resp, err := rt.RoundTrip(post(t, nil))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, forgotten.Body.Close())
		require.Equal(t, 1, d.Stats().Idle)
	})
}

func TestATransportPassesErrorsAndClosesBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := core.Must(dispatch.New(config{Capacity: 1}))
		s := resiltest.NewScript(resiltest.Reply{Err: io.ErrUnexpectedEOF})
		rt := dispatch.RoundTripper(d, s, nil)
		body := resiltest.NewBody("order")
		_, err := rt.RoundTrip(post(t, body))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NoError(t, d.Close(t.Context()))
		body = resiltest.NewBody("order")
		_, err = rt.RoundTrip(post(t, body))
		require.ErrorIs(t, err, dispatch.ErrClosed)
		require.Equal(t, 1, body.Closes())
		require.Equal(t, 1, s.Calls())
	})
}
