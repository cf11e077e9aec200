package breaker_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/resiltest"
)

func TestTheRequestOfAResponseIsTheCallersOwn(t *testing.T) {
	t.Parallel()
	for _, judgeBody := range []bool{false, true} {
		rt := newClient(t, breaker.ClientConfig{JudgeBody: judgeBody}).Transport(answers(200, ""))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://a.test", io.MultiReader(strings.NewReader("a stream")))
		require.NoError(t, err)
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		require.Same(t, req, resp.Request)
		require.NoError(t, resp.Body.Close())
	}
}

// A RoundTripper of the user's can hide that the body is an io.Writer.
func TestAnUpgradeIsJudgedByItsHeadersWhateverItsBody(t *testing.T) {
	t.Parallel()
	c := newClient(t, breaker.ClientConfig{JudgeBody: true})
	resp, err := get(t.Context(), c.Transport(resiltest.NewScript(resiltest.Reply{Status: http.StatusSwitchingProtocols, Body: "frames"})), "http://a.test")
	require.NoError(t, err)
	require.EqualValues(t, 1, c.Stats().Successes, "the connection can last for hours")
	require.NoError(t, resp.Body.Close())
}

func TestABodyWhoseJudgmentEndsTheGoroutineIsClosed(t *testing.T) {
	t.Parallel()
	body := resiltest.NewBody("answer")
	c := newClient(t, breaker.ClientConfig{JudgeBody: true, Registry: recorded(func(core.Outcome, time.Duration) { runtime.Goexit() })})
	resp, err := get(t.Context(), c.Transport(does(func(req *http.Request) (*http.Response, error) {
		resp := respond(req, http.StatusOK)
		resp.Body = body
		return resp, nil
	})), "http://a.test")
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() { _ = resp.Body.Close() })
	all.Wait()
	require.Equal(t, 1, body.Closes())
}
