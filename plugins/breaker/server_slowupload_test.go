package breaker_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/timeout"
)

// TestALimitDuringASlowUploadIsNoFailureOfTheHandler: of the same arrangements, a handler
// that is slow itself after a fast upload is one.
func TestALimitDuringASlowUploadIsNoFailureOfTheHandler(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	plugin := timeout.NewServer(core.Must(timeout.New(timeout.Config{Limit: limit})), timeout.ServerOptions{Cut: true})
	cause := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeoutCause(r.Context(), limit, &timeout.Error{Limit: limit})
			defer cancel()
			h.ServeHTTP(w, r.WithContext(ctx))
		})
	}
	hangs := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(2 * limit)
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	early := func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(2 * limit) // and reads after the limit
		_, _ = io.Copy(io.Discard, r.Body)
	}
	proxy := func(t *testing.T, h http.Handler) http.Handler {
		t.Helper()
		p := httputil.NewSingleHostReverseProxy(core.Must(url.Parse("http://" + host)))
		p.Transport = client.New(origin(t, h), timeout.NewClient(core.Must(timeout.New(timeout.Config{Limit: limit})), timeout.ClientOptions{PerAttempt: true}))
		p.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusBadGateway)
			time.Sleep(limit) // net/http would wait for the last read of the body by a lock, and the bubble stand still
		}
		return p
	}
	for name, around := range map[string]func(*testing.T, *breaker.Server, http.Handler) http.Handler{
		"a limit inside": func(_ *testing.T, p *breaker.Server, h http.Handler) http.Handler {
			return p.Handler(plugin.Handler(h))
		},
		"a limit outside": func(_ *testing.T, p *breaker.Server, h http.Handler) http.Handler {
			return plugin.Handler(p.Handler(h))
		},
		"a cause outside": func(_ *testing.T, p *breaker.Server, h http.Handler) http.Handler { return cause(p.Handler(h)) },
		"a reverse proxy": func(t *testing.T, p *breaker.Server, h http.Handler) http.Handler {
			t.Helper()
			return p.Handler(proxy(t, h))
		},
	} {
		for which, c := range map[string]struct {
			handler http.HandlerFunc
			pause   time.Duration
			want    core.Outcome
		}{
			"a slow upload":          {discards, 70 * time.Millisecond, core.Ignored},
			"a fast one, slow after": {hangs, 0, core.Failure},
			"slow before a fast one": {early, 0, core.Failure},
		} {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex // requests of several connections
				var got []core.Outcome
				p := newServer(t, breaker.ServerConfig{Registry: recorded(func(o core.Outcome) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, o)
				})})
				front := origin(t, around(t, p, c.handler))
				for range 8 {
					resp, err := front.RoundTrip(upload(t.Context(), io.LimitReader(trickle(c.pause), 40), 0))
					if err == nil {
						_, _ = io.Copy(io.Discard, resp.Body) // so that the client could use the connection again
						_ = resp.Body.Close()
					}
					time.Sleep(time.Minute) // the handler has returned
				}
				synctest.Wait()
				require.Len(t, got, 8, "%s, %s", name, which)
				for _, outcome := range got {
					require.Equal(t, c.want, outcome, "%s, %s", name, which)
				}
			})
		}
	}
}

func TestAnAnswerDuringAnUploadIsIgnoredIfItMayBeThatOfALimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		after  time.Duration
		length int64
		want   core.Outcome
	}{
		{500, time.Second, -1, core.Failure},
		{502, time.Second, -1, core.Ignored},
		{503, 100 * time.Millisecond, -1, core.Ignored},
		{503, 100*time.Millisecond - 1, -1, core.Failure},
		{504, time.Second, -1, core.Ignored},
		{504, time.Second, 1, core.Failure}, // it has all of the body
		{507, time.Second, -1, core.Failure},
	} {
		for _, reads := range []bool{true, false} { // at the time of the answer
			synctest.Test(t, func(t *testing.T) {
				body := io.MultiReader(strings.NewReader("x"), reading(func(p []byte) (int, error) {
					time.Sleep(c.after)
					if reads {
						time.Sleep(time.Minute)
					}
					return copy(p, "y"), nil
				}))
				answers := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					go func() {
						_, _ = r.Body.Read(make([]byte, 1))
						if c.length < 0 {
							_, _ = r.Body.Read(make([]byte, 1))
						}
					}()
					time.Sleep(c.after)
					synctest.Wait()
					w.WriteHeader(c.status)
				})
				sized := func(h http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						r.ContentLength = c.length
						h.ServeHTTP(w, r)
					})
				}
				require.Equal(t, c.want, outcomeOf(t, answers, sized, body), "%+v, %v", c, reads)
				time.Sleep(time.Hour)
			})
		}
	}
}
