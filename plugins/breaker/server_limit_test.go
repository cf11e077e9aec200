package breaker_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/timeout"
)

// Less than half of an outer limit shows little about the handler: other work has used up
// the time.
func TestAnOuterLimitIsAFailureOfTheHandlerFromHalfOfIt(t *testing.T) {
	t.Parallel()
	limits := map[string]func(http.Handler) http.Handler{
		"timeout.Server": timeout.NewServer(core.Must(timeout.New(timeout.Config{Limit: time.Second})), timeout.ServerOptions{}).Handler,
		"WithTimeoutCause": func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ctx, cancel := context.WithTimeoutCause(r.Context(), time.Second, &timeout.Error{Limit: time.Second})
				defer cancel()
				h.ServeHTTP(w, r.WithContext(ctx))
			})
		},
	}
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	late := func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		w.WriteHeader(http.StatusBadGateway)
	}
	quick := status(500)
	for _, c := range []struct {
		name    string
		used    time.Duration // of the limit, by other work
		handler http.HandlerFunc
		cfg     breaker.ServerConfig
		want    core.Outcome
	}{
		{"half", 500 * time.Millisecond, hang, breaker.ServerConfig{}, core.Failure},
		{"all", 0, hang, breaker.ServerConfig{}, core.Failure},
		{"an answer at half", 500 * time.Millisecond, late, breaker.ServerConfig{}, core.Failure},
		{"a failure in time", 990 * time.Millisecond, quick, breaker.ServerConfig{}, core.Failure},
	} {
		for name, limit := range limits {
			synctest.Test(t, func(t *testing.T) {
				var got []core.Outcome
				cfg := c.cfg
				cfg.Registry = recorded(func(o core.Outcome) { got = append(got, o) })
				h := newServer(t, cfg).Handler(c.handler)
				serve(t.Context(), limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(c.used)
					h.ServeHTTP(w, r)
				})), "/")
				synctest.Wait()
				require.Equal(t, []core.Outcome{c.want}, got, "%s, %s", name, c.name)
			})
		}
	}
}
