package breaker_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/resiltest"
	"github.com/gresil/gresil/server"
)

func TestConfigErrorsNameTheFieldAndTheDefaultOfThePlugin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  interface{ Validate() error }
		want string
	}{
		{breaker.ClientConfig{Trials: -3}, "breaker.ClientConfig.Trials = -3: must be > 0 and <= 1024 (0 means 5)"},
		{breaker.ClientConfig{Trials: 1025}, "breaker.ClientConfig.Trials = 1025: must be > 0 and <= 1024 (0 means 5)"},
		{breaker.ServerConfig{Trials: -3}, "breaker.ServerConfig.Trials = -3: must be > 0 and <= 1024 (0 means 10)"},
		{breaker.ClientConfig{MaxKeys: -1}, "breaker.ClientConfig.MaxKeys = -1: must be > 0 (0 means 1024)"},
		{breaker.ServerConfig{MaxKeys: -1, Key: server.Pattern}, "breaker.ServerConfig.MaxKeys = -1: must be > 0 (0 means 1024)"},
		{
			breaker.ClientConfig{Window: -1, MaxHalfOpen: -1},
			"breaker.ClientConfig.Window = -1: must be > 0 and <= 1048576 (0 means 100)\nbreaker.ClientConfig.MaxHalfOpen = -1ns: must be >= 0 (0 means no limit)",
		},
	} {
		err := c.cfg.Validate()
		require.EqualError(t, err, c.want)
		require.ErrorIs(t, err, core.ErrConfig)
	}
	require.NoError(t, breaker.ClientConfig{Trials: 1024}.Validate())
	_, err := breaker.NewClient(breaker.ClientConfig{Trials: -3})
	require.EqualError(t, err, "breaker.ClientConfig.Trials = -3: must be > 0 and <= 1024 (0 means 5)")
}

func TestServerAndClientJudgeAStatusAlike(t *testing.T) {
	t.Parallel()
	for status := 200; status < 600; status++ {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		want := client.Classify(t.Context(), &http.Response{StatusCode: status}, nil)
		require.Equal(t, want, server.Classify(r, status), status)
	}
}

func TestABodyIsClosedOnceThoughTheTransportClosesItAndPanics(t *testing.T) {
	t.Parallel()
	p := newClient(t, breaker.ClientConfig{})
	for name, closes := range map[string]bool{"closed before the panic": true, "not closed": false} {
		b := resiltest.NewBody("x")
		rt := p.Transport(does(func(req *http.Request) (*http.Response, error) {
			if closes {
				_ = req.Body.Close()
			}
			panic("transport")
		}))
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "https://"+host, b)
		require.NoError(t, err)
		require.PanicsWithValue(t, "transport", func() { _, _ = rt.RoundTrip(req) }, name)
		require.Equal(t, 1, b.Closes(), name)
		require.Same(t, b, req.Body, "the request is never changed")
	}
}

func TestAStreamThatIsATrialHoldsItsSlotOnlyUntilTheHeader(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(w http.ResponseWriter){
		"flush":  func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
		"write":  func(w http.ResponseWriter) { _, _ = io.WriteString(w, "data: x\n\n") },
		"status": func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) },
		"hijack": func(w http.ResponseWriter) { _, _, _ = w.(http.Hijacker).Hijack() },
	} {
		synctest.Test(t, func(t *testing.T) {
			var outcomes []core.Outcome
			p := newServer(t, breaker.ServerConfig{Trials: 1, Initial: breaker.HalfOpen, Registry: recorded(func(o core.Outcome, _ time.Duration) { outcomes = append(outcomes, o) })})
			end := make(chan struct{})
			h := p.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/stream" {
					return
				}
				w.WriteHeader(http.StatusEarlyHints)
				require.Equal(t, breaker.HalfOpen, p.For("").State(), "informational") //nolint:contextcheck // a look at the state is no part of a call
				begin(w)
				<-end
			}))
			done := make(chan struct{})
			go func() {
				defer close(done)
				h.ServeHTTP(hijackable{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/stream", http.NoBody))
			}()
			synctest.Wait()
			require.Equal(t, breaker.Closed, p.For("").State(), name)
			require.Equal(t, http.StatusOK, serve(t.Context(), h, "/").Code, name)
			close(end)
			<-done
			require.Equal(t, []core.Outcome{core.Success, core.Success}, outcomes, "%s: each once", name)
		})
	}
}

type hijackable struct{ *httptest.ResponseRecorder }

func (hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

func TestWhatComesAfterTheHeaderDoesNotChangeTheVerdict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			status int
			then   func(context.Context)
			want   core.Outcome
		}{
			"panic":                   {200, func(context.Context) { panic("template") }, core.Success},
			"abort":                   {500, func(context.Context) { panic(http.ErrAbortHandler) }, core.Failure},
			"goexit":                  {200, func(context.Context) { runtime.Goexit() }, core.Success},
			"a timeout cuts the body": {200, func(ctx context.Context) { <-ctx.Done() }, core.Success},
		} {
			var outcomes []core.Outcome
			p := newServer(t, breaker.ServerConfig{Registry: recorded(func(o core.Outcome, _ time.Duration) { outcomes = append(outcomes, o) })})
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, timeoutError{})
			var all sync.WaitGroup
			all.Go(func() {
				defer func() { _ = recover() }()
				serve(ctx, p.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.WriteHeader(c.status)
					c.then(r.Context())
				})), "/")
			})
			all.Wait()
			cancel()
			require.Equal(t, []core.Outcome{c.want}, outcomes, name)
		}
	})
}

func TestServerClassifyIsAskedOnce(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{"header": status(200), "nothing sent": func(http.ResponseWriter, *http.Request) {}} {
		asked := 0
		p := newServer(t, breaker.ServerConfig{Classify: func(*http.Request, int) core.Outcome { asked++; return core.Success }})
		serve(t.Context(), p.Handler(h), "/")
		require.Equal(t, 1, asked, name)
	}
}

func TestServerClassifyThatPanicsGivesTheSlotBack(t *testing.T) {
	t.Parallel()
	for name, sends := range map[string]bool{"at the header": true, "at the return": false} {
		asked := 0
		p := newServer(t, breaker.ServerConfig{Trials: 1, Initial: breaker.HalfOpen, Classify: func(*http.Request, int) core.Outcome {
			asked++
			panic("classify")
		}})
		h := p.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if sends {
				w.WriteHeader(http.StatusOK)
			}
		}))
		require.PanicsWithValue(t, "classify", func() { serve(t.Context(), h, "/") }, name)
		require.Equal(t, 1, asked, name)
		require.Equal(t, breaker.Open, p.For("").State(), name)
	}
}
