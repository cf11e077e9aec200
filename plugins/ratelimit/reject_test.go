package ratelimit_test

import (
	"bufio"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
)

// A client whose body stalls is refused at once, whoever refuses and whoever is around.
func TestReject_StalledBody(t *testing.T) {
	t.Parallel()
	spent := ratelimit.ServerConfig{Limit: ratelimit.PerHour(1), Weight: func(*http.Request) (int64, error) { return 2, nil }}
	all := func(*http.Request) bool { return true }
	limiter := func(cfg ratelimit.ServerConfig) http.Handler {
		return core.Must(ratelimit.NewServer(cfg)).Handler(http.NotFoundHandler())
	}
	own := spent
	own.OnRejected = func(w http.ResponseWriter, _ *http.Request, _ server.Rejection) { w.WriteHeader(http.StatusTeapot) }
	free := ratelimit.ServerConfig{Limit: ratelimit.PerHour(1)}
	broken := core.Must(breaker.NewGroup(breaker.Config{Initial: breaker.ForcedOpen}))
	for _, tt := range []struct {
		name    string
		handler func() http.Handler
		status  int
		keeps   bool // the connection, as net/http alone would, if the body is here
	}{
		{"limit", func() http.Handler { return limiter(spent) }, 413, true},
		{"OnRejected", func() http.Handler { return limiter(own) }, 418, true},
		{"Block", func() http.Handler { return limiter(ratelimit.ServerConfig{Block: all}) }, 403, true},
		{"Charge", func() http.Handler {
			return core.Must(ratelimit.NewServer(free)).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				charge, _ := ratelimit.ChargeOf(w)
				result, _ := charge.Take(r.Context(), 1)
				charge.Reject(w, r, result)
			}))
		}, 429, true},
		{"breaker", func() http.Handler {
			return breaker.NewServer(broken, breaker.ServerOptions{}).Handler(http.NotFoundHandler())
		}, 503, true},
		{"limit in breaker in timeout", func() http.Handler {
			inner := breaker.NewServer(nil, breaker.ServerOptions{}).Handler(limiter(spent))
			return timeout.NewServer(nil, timeout.ServerOptions{}).Handler(inner)
		}, 413, true},
		{"MaxBytesHandler", func() http.Handler { return http.MaxBytesHandler(limiter(spent), 3) }, 413, false},
		{"timeout", func() http.Handler {
			return timeout.NewServer(core.Must(timeout.New(timeout.Config{Limit: time.Millisecond})), timeout.ServerOptions{}).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
			}))
		}, 503, true},
		{"a handler's own", func() http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				server.Reject(w, r, server.Rejection{Status: http.StatusUnauthorized, Err: io.EOF})
			})
		}, 401, true},
	} {
		for body, keeps := range map[string]bool{"12345": false, "1234567890": tt.keeps} {
			t.Run(tt.name+"/"+body, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					network := resiltest.NewNetwork()
					listener := network.Listen("api.test:80")
					srv := &http.Server{Handler: tt.handler()}
					defer time.Sleep(time.Minute) // net/http waits a moment before it closes
					defer func() { _ = srv.Close() }()
					go func() { _ = srv.Serve(listener) }()
					conn := core.Must(network.DialContext(t.Context(), "tcp", "api.test:80"))
					defer func() { _ = conn.Close() }()
					began := time.Now()
					require.NoError(t, conn.SetReadDeadline(began.Add(time.Hour)))
					_ = core.Must(io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"+body))
					resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
					require.NoError(t, err, "no answer")
					require.LessOrEqual(t, time.Since(began), 10*time.Millisecond)
					require.Equal(t, tt.status, resp.StatusCode)
					require.Equal(t, !keeps, resp.Close)
				})
			})
		}
	}
}

// The body that is prepared is that of server.Reject.
func TestReject_DefaultIsServerReject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := ratelimit.ServerConfig{
			Name: "api", Limit: ratelimit.PerMinute(1), Headers: ratelimit.HeaderDraft10, Key: server.FirstOf(server.User, server.Header("User")),
			Block: path("/bad"), Weight: cost, Layers: []ratelimit.Layer{{Name: "all", Limit: ratelimit.PerMinute(1)}},
		}
		byDefault := serve(t, cfg)
		cfg.OnRejected = server.Reject
		byHook := serve(t, cfg)
		for _, r := range []func() *http.Request{
			func() *http.Request { return request(http.MethodGet, "/", "User", "ann", "Cost", "1") },
			func() *http.Request { return request(http.MethodGet, "/", "User", "ann", "Cost", "1") }, // 429 of two
			func() *http.Request { return request(http.MethodGet, "/", "User", "bob", "Cost", "1") }, // 429 of one
			func() *http.Request {
				return request(http.MethodGet, "/", "User", "bob", "Cost", "1", "Accept", "text/plain")
			},
			func() *http.Request { return request(http.MethodHead, "/", "User", "bob", "Cost", "1") },
			func() *http.Request { return request(http.MethodGet, "/", "User", "bob", "Cost", "9") }, // 413
			func() *http.Request { return request(http.MethodGet, "/bad") },                          // 403
			func() *http.Request { return request(http.MethodGet, "/", "Cost", "1") },                // 403
			func() *http.Request { return request(http.MethodGet, "/", "User", "bob", "Cost", "-") }, // 500
		} {
			want, got := do(byDefault, r()), do(byHook, r())
			require.Equal(t, want.Code, got.Code)
			require.Equal(t, want.Header(), got.Header())
			require.Equal(t, want.Body.String(), got.Body.String())
		}
	})
}
