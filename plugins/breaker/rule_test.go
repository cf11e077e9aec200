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
	"github.com/gresil/gresil/server"
)

func TestClientOpensAfterANumberOfFailures(t *testing.T) {
	t.Parallel()
	p := newClient(t, breaker.ClientConfig{Failures: 3, Window: 3, Trials: 2, TrialRule: breaker.AllMustSucceed})
	s := resiltest.NewScript()
	rt := p.Transport(s)
	for _, status := range []int{500, 500, 200, 500, 500, 500} { // three in a row
		require.Equal(t, breaker.Closed, stateOf(p))
		s.Set(resiltest.Reply{Status: status})
		send(t, rt, 1, status)
	}
	_ = refused(t, rt)
	require.NoError(t, p.For(host).SetState(breaker.HalfOpen))
	s.Set(resiltest.Reply{Status: 200})
	send(t, rt, 1, 200)
	s.Set(resiltest.Reply{Status: 500})
	send(t, rt, 1, 500)
	require.Equal(t, breaker.Open, stateOf(p), "one failed trial opens it")
	require.NoError(t, p.For(host).SetState(breaker.HalfOpen))
	s.Set(resiltest.Reply{Status: 200})
	send(t, rt, 2, 200)
	require.Equal(t, breaker.Closed, stateOf(p))

	_, err := breaker.NewClient(breaker.ClientConfig{Failures: 3, FailureRate: 0.5})
	require.EqualError(t, err, "breaker.ClientConfig.Failures = 3: must be 0 when FailureRate is set")
}

func stateOf(c *breaker.Client) breaker.State {
	if b := c.For(host); b != nil {
		return b.State()
	}
	return breaker.Closed
}

func TestServerOpensAfterANumberOfFailures(t *testing.T) {
	t.Parallel()
	s := newServer(t, breaker.ServerConfig{Failures: 2, Trials: 2, TrialRule: breaker.AllMustSucceed})
	serve(t.Context(), s.Handler(status(500)), "/")
	serve(t.Context(), s.Handler(status(200)), "/")
	serve(t.Context(), s.Handler(status(500)), "/")
	require.Equal(t, breaker.Open, s.For("").State())
	require.NoError(t, s.For("").SetState(breaker.HalfOpen))
	serve(t.Context(), s.Handler(status(200)), "/")
	require.Equal(t, breaker.HalfOpen, s.For("").State())
	serve(t.Context(), s.Handler(status(500)), "/")
	require.Equal(t, breaker.Open, s.For("").State())

	_, err := breaker.NewServer(breaker.ServerConfig{Failures: 3, FailureRate: 0.5})
	require.EqualError(t, err, "breaker.ServerConfig.Failures = 3: must be 0 when FailureRate is set")
}

func TestAPanicOfTheTransport(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fails    bool
		value    any
		failures uint64
	}{
		{false, "boom", 0},
		{true, "boom", 1},
		{true, http.ErrAbortHandler, 0},
	} {
		p := newClient(t, breaker.ClientConfig{PanicsFail: c.fails})
		closed := 0
		body := closing{strings.NewReader("text"), &closed}
		rt := p.Transport(roundTrip(func(*http.Request) (*http.Response, error) { panic(c.value) }))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+host, body)
		require.NoError(t, err)
		require.PanicsWithValue(t, c.value, func() { _, _ = rt.RoundTrip(req) })
		s := p.Stats()
		require.Equal(t, []uint64{c.failures, 1 - c.failures}, []uint64{s.Failures, s.Ignored}, c)
		require.Equal(t, 1, closed)
	}
}

type closing struct {
	io.Reader
	closed *int
}

func (c closing) Close() error { *c.closed++; return nil }

func TestATransportThatEndsItsGoroutineIsNoFailure(t *testing.T) {
	t.Parallel()
	p := newClient(t, breaker.ClientConfig{PanicsFail: true, Trials: 1, Initial: breaker.HalfOpen})
	rt := p.Transport(roundTrip(func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }))
	var all sync.WaitGroup
	all.Go(func() { _, _ = get(t.Context(), rt, "https://"+host) })
	all.Wait()
	require.EqualValues(t, 1, p.Stats().Ignored)
	require.Equal(t, breaker.HalfOpen, stateOf(p))
	require.Zero(t, p.For(host).Snapshot().TrialsRunning)
}

// Zero fields get the defaults of the plugin.
func TestSetConfigKeepsTheDefaultsOfThePlugin(t *testing.T) {
	t.Parallel()
	var r core.Registry
	c := newClient(t, breaker.ClientConfig{Name: "vendor", Registry: &r, Trials: 3})
	rt := c.Transport(answers(200, ""))
	send(t, rt, 1, 200)
	require.NoError(t, c.SetConfig(breaker.ClientConfig{Window: 2}))
	require.Equal(t, breaker.ClientConfig{Name: "vendor", Registry: &r, Window: 2}, c.Config())
	require.Equal(t, 5, c.For(host).Snapshot().Trials)
	require.NoError(t, c.For(host).SetState(breaker.Open))
	require.NotEqual(t, time.Minute, c.For(host).Snapshot().OpenFor)

	s := newServer(t, breaker.ServerConfig{Name: "shop", Registry: &r, Key: server.Pattern})
	require.NoError(t, s.SetConfig(breaker.ServerConfig{Window: 5, Key: server.Pattern}))
	require.Equal(t, 5, s.Group().Config().Window)
	require.NoError(t, s.Close())
	_, ok := core.Lookup[*breaker.Server](&r, "shop")
	require.False(t, ok)
}
