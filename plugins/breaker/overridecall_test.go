package breaker_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/resiltest"
	"github.com/gresil/gresil/server"
)

// The function of an Override gets the Classify in force, of the Config, of SetConfig, of an
// outer Override or the default, and can call it.
func TestOverrideWrapsClassifyOfAClient(t *testing.T) {
	t.Parallel()
	p := newClient(t, breaker.ClientConfig{})
	rt := p.Transport(resiltest.NewScript(resiltest.Reply{Status: http.StatusInternalServerError}))
	calls := 0
	wrap := func(c *breaker.ClientCall) {
		old := c.Classify
		c.Classify = func(ctx context.Context, resp *http.Response, err error) core.Outcome {
			calls++
			return old(ctx, resp, err)
		}
	}
	ctx := p.Override(p.Override(t.Context(), wrap), wrap)
	_, err := get(ctx, rt, "https://"+host)
	require.NoError(t, err)
	require.Equal(t, []uint64{2, 1}, []uint64{uint64(calls), p.Stats().Failures}, "by default")

	require.NoError(t, p.SetConfig(breaker.ClientConfig{Classify: func(context.Context, *http.Response, error) core.Outcome { return core.Success }}))
	_, err = get(ctx, rt, "https://"+host)
	require.NoError(t, err)
	require.Equal(t, []uint64{4, 1}, []uint64{uint64(calls), p.Stats().Successes}, "of the Config")

	none := p.Override(ctx, func(c *breaker.ClientCall) { c.Classify = nil })
	_, err = get(none, rt, "https://"+host)
	require.NoError(t, err)
	require.EqualValues(t, 2, p.Stats().Successes, "nil is that of the Config")
}

func TestOverrideWrapsClassifyOfAServer(t *testing.T) {
	t.Parallel()
	s := newServer(t, breaker.ServerConfig{})
	calls := 0
	wrap := func(c *breaker.ServerCall) {
		old := c.Classify
		c.Classify = func(r *http.Request, status int) core.Outcome {
			calls++
			return old(r, status)
		}
	}
	ctx := s.Override(s.Override(t.Context(), wrap), wrap)
	serve(ctx, s.Handler(status(500)), "/")
	require.Equal(t, []uint64{2, 1}, []uint64{uint64(calls), s.Stats().Failures}, "by default")
	require.NoError(t, s.SetConfig(breaker.ServerConfig{Classify: func(*http.Request, int) core.Outcome { return core.Success }}))
	serve(ctx, s.Handler(status(500)), "/")
	require.Equal(t, []uint64{4, 1}, []uint64{uint64(calls), s.Stats().Successes}, "of the Config")
}

// No Classify judges a request that an inner plugin rejected: no call was made.
func TestARejectionIsNotClassified(t *testing.T) {
	t.Parallel()
	bad := func(context.Context, *http.Response, error) core.Outcome { return core.Failure }
	for name, reject := range map[string]func(*http.Request) (*http.Response, error){
		"an error": func(*http.Request) (*http.Response, error) { return nil, errors.Join(core.ErrRejected) },
		"a response": func(req *http.Request) (*http.Response, error) {
			return client.Reject(req, http.StatusServiceUnavailable, core.ErrRejected), nil
		},
	} {
		for _, judgeBody := range []bool{false, true} {
			p := newClient(t, breaker.ClientConfig{Classify: bad, JudgeBody: judgeBody})
			ctx := p.Override(t.Context(), func(c *breaker.ClientCall) { c.Classify = bad })
			for _, ctx := range []context.Context{t.Context(), ctx} {
				_, _ = get(ctx, p.Transport(does(reject)), "https://"+host)
			}
			require.Equal(t, []uint64{0, 2}, []uint64{p.Stats().Failures, p.Stats().Ignored}, name)
		}
	}
	always := func(*http.Request, int) core.Outcome { return core.Failure }
	s := newServer(t, breaker.ServerConfig{Classify: always})
	h := s.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.Reject(w, r, server.Rejection{}) }))
	serve(t.Context(), h, "/")
	serve(s.Override(t.Context(), func(c *breaker.ServerCall) { c.Classify = always }), h, "/")
	require.Equal(t, []uint64{0, 2}, []uint64{s.Stats().Failures, s.Stats().Ignored})
}
