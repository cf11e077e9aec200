package ratelimit_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/reject"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
)

func TestHandler_Refusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.Config{Name: "api", Limit: ratelimit.PerMinute(1)}, ratelimit.ServerOptions{RateLimit: true, Weight: cost})
		fetch(s, "/", "Cost", "1")
		time.Sleep(10 * time.Second)
		w := fetch(s, "/", "Cost", "1")
		require.Equal(t, 429, w.Code)
		require.Equal(t, http.Header{
			"Content-Type":     {"application/problem+json"},
			"Cache-Control":    {"no-store"},
			"Retry-After":      {"50"},
			"X-Rate-Limited":   {"true"},
			"Ratelimit-Policy": {`"api";q=1;w=60`},
			"Ratelimit":        {`"api";r=0;t=50`},
		}, w.Header())
		require.JSONEq(t, `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded",
			"status":429,"detail":"Rate limit exceeded.","violated-policies":["api"]}`, w.Body.String())

		w = fetch(s, "/", "Cost", "2", "Accept", "text/plain")
		require.Equal(t, 413, w.Code)
		require.Equal(t, "Request Entity Too Large: The request costs 2, and the limit is 1.\n", w.Body.String())
		require.Equal(t, "true", w.Header().Get("X-Rate-Limited"))
		require.Empty(t, w.Header().Get("Retry-After"))

		w = do(s, request(http.MethodHead, "/", "Cost", "1"))
		require.Equal(t, 429, w.Code)
		require.Empty(t, w.Body.String())
		require.EqualValues(t, 1, s.calls.Load())
	})
}

// The body that is prepared is that of server.Reject.
func TestHandler_DefaultIsServerReject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := ratelimit.Config{Name: "api", Limit: ratelimit.PerMinute(1), Limits: map[string]ratelimit.Limit{"all": ratelimit.PerMinute(2)}}
		opts := ratelimit.ServerOptions{RateLimit: true, Key: server.FirstOf(server.User, server.Header("User")), Block: path("/bad"), Weight: cost, Layers: []ratelimit.Layer{{Limit: "all"}}}
		byDefault := serve(t, cfg, opts)
		opts.OnRejected = server.Reject
		byHook := serve(t, cfg, opts)
		codes := []int{}
		for _, header := range [][]string{
			{"User", "ann", "Cost", "1"},
			{"User", "ann", "Cost", "1"},
			{"User", "ann", "Cost", "1", "Accept", "text/plain"},
			{"User", "ann", "Cost", "9"},
			{"User", "bob", "Cost", "1"},
			{"User", "eve", "Cost", "1"},
			{"User", "eve", "Cost", "-1"},
			{"Cost", "1"},
			{"bad", ""},
		} {
			target := "/" + map[bool]string{true: "bad"}[header[0] == "bad"]
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				want, got := do(byDefault, request(method, target, header...)), do(byHook, request(method, target, header...))
				require.Equal(t, want.Code, got.Code)
				require.Equal(t, want.Header(), got.Header())
				require.Equal(t, want.Body.String(), got.Body.String())
				codes = append(codes, want.Code)
			}
		}
		require.Equal(t, []int{200, 429, 429, 429, 429, 429, 413, 413, 200, 429, 429, 429, 500, 500, 403, 403, 403, 403}, codes)
	})
}

func TestHandler_OnRejected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rej server.Rejection
		s := serve(t, ratelimit.Config{Name: "api", Limit: ratelimit.PerMinute(1)}, ratelimit.ServerOptions{OnRejected: func(w http.ResponseWriter, _ *http.Request, got server.Rejection) {
			rej = got
			w.Header().Set("X-Help", "https://help.test/limits")
			if got.Status == 429 {
				w.WriteHeader(http.StatusTeapot)
			}
		}, Block: path("/bad")})
		fetch(s, "/")
		w := fetch(s, "/")
		require.Equal(t, http.StatusTeapot, w.Code)
		require.Equal(t, http.Header{"Cache-Control": {"no-store"}, "Retry-After": {"60"}, "X-Rate-Limited": {"true"}, "X-Help": {"https://help.test/limits"}}, w.Header())
		var limited *ratelimit.LimitedError
		require.ErrorAs(t, rej.Err, &limited)
		require.Equal(t, "api", limited.Name)
		require.Equal(t, time.Minute, limited.Result.RetryAfter)
		w = fetch(s, "/bad")
		require.Equal(t, 403, w.Code, "an OnRejected that writes nothing")
		require.ErrorIs(t, rej.Err, core.ErrRejected)
		require.NotErrorIs(t, rej.Err, ratelimit.ErrLimited)
	})
}

func TestHandler_WeightFails(t *testing.T) {
	t.Parallel()
	var weight error
	s := serve(t, ratelimit.Config{Limit: ratelimit.PerMinute(1)}, ratelimit.ServerOptions{RateLimit: true, Weight: func(*http.Request) (int64, error) { return 1, weight }})
	for _, tt := range []struct {
		err    error
		status int
		body   string
	}{
		{server.Rejection{Status: 411, Detail: "Send a Content-Length."}, 411, `{"type":"about:blank","title":"Length Required","status":411,"detail":"Send a Content-Length."}`},
		{fmt.Errorf("wrapped: %w", server.Rejection{Status: 400, Detail: "Bad page."}), 400, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"Bad page."}`},
		{errors.New("secret"), 500, `{"type":"about:blank","title":"Internal Server Error","status":500}`},
		{server.Rejection{Status: 42, Detail: "no status"}, 500, `{"type":"about:blank","title":"Internal Server Error","status":500}`},
	} {
		weight = tt.err
		w := fetch(s, "/")
		require.Equal(t, tt.status, w.Code)
		require.JSONEq(t, tt.body, w.Body.String())
		require.Empty(t, w.Header().Get("X-Rate-Limited"))
		require.Empty(t, w.Header().Get("RateLimit"))
	}
	weight = nil
	require.Equal(t, 200, fetch(s, "/").Code, "nothing was taken")
	require.EqualValues(t, 1, s.calls.Load())
}

func TestHandler_AllowAndBlock(t *testing.T) {
	t.Parallel()
	weighed := 0
	s := serve(t, ratelimit.Config{Limit: ratelimit.PerMinute(1)}, ratelimit.ServerOptions{
		RateLimit: true, Block: path("/bad"), Allow: func(r *http.Request) bool { return path("/free")(r) || path("/bad")(r) },
		Weight: func(*http.Request) (int64, error) { weighed++; return 1, nil },
	})
	w := fetch(s, "/bad")
	require.Equal(t, 403, w.Code)
	require.Equal(t, http.Header{"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"}}, w.Header())
	require.JSONEq(t, `{"type":"about:blank","title":"Forbidden","status":403}`, w.Body.String())
	for range 5 {
		w := fetch(s, "/free")
		require.Equal(t, 200, w.Code)
		require.Equal(t, http.Header{"X-Rate-Limited": {"false"}}, w.Header(), "no field about a limit that does not apply")
	}
	require.Zero(t, weighed)
	require.Equal(t, 200, fetch(s, "/").Code, "nothing was taken")
	require.Equal(t, 429, fetch(s, "/").Code)
}

func TestHandler_Shadow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		weight := error(nil)
		s := serve(t, ratelimit.Config{Limit: ratelimit.PerMinute(2), MaxWait: time.Hour, Limits: map[string]ratelimit.Limit{"all": ratelimit.PerMinute(5)}}, ratelimit.ServerOptions{
			Shadow: true, Wait: true, XRateLimit: true, RateLimit: true, Key: server.Header("User"), Block: path("/bad"), Allow: path("/free"),
			Weight:     func(*http.Request) (int64, error) { return 1, weight },
			Layers:     []ratelimit.Layer{{Limit: "all"}},
			OnRejected: func(http.ResponseWriter, *http.Request, server.Rejection) { t.Error("not in shadow") },
		})
		start := time.Now()
		get := func(target, user string) {
			w := fetch(s, target, "User", user)
			require.Equal(t, 200, w.Code)
			require.Empty(t, w.Header())
		}
		for range 5 {
			get("/", "ann")
		}
		require.EqualValues(t, 0, s.left(t, "ann"), "it charges")
		require.EqualValues(t, 3, s.left(t, "#all:all", "all"), "and what the first limit refuses reaches no other")
		require.EqualValues(t, 3, s.limits.Stats().Rejected)
		get("/bad", "ann")
		get("/free", "ann")
		get("/", "")
		weight = errors.New("unknown")
		get("/", "ann")
		_, ok := s.plugin.Respond(nil, request(http.MethodGet, "/"), "ann", 9)
		require.True(t, ok)
		require.NoError(t, s.limits.Close())
		weight = nil
		get("/", "ann")
		require.Zero(t, time.Since(start), "nothing waits")
		require.EqualValues(t, 10, s.calls.Load())
	})
}

func TestHandler_Closed(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.Config{}, ratelimit.ServerOptions{})
	require.NoError(t, s.limits.Close())
	require.Equal(t, 503, fetch(s, "/").Code)
	require.Zero(t, s.calls.Load())
}

// The error of a prepared refusal is that of the request, not of the rule.
func TestHandler_RefusalReachesOuterRecorder(t *testing.T) {
	t.Parallel()
	s := serve(t, ratelimit.Config{Name: "api", Limit: ratelimit.PerHour(1)}, ratelimit.ServerOptions{Key: server.Header("User"), Weight: cost})
	rejected := func(header ...string) (err error) {
		fetch(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := new(reject.Recorder)
			s.ServeHTTP(rec.Wrap(w), r)
			err = rec.Rejected()
		}), "/", header...)
		return err
	}
	for _, user := range []string{"ann", "bob"} {
		require.NoError(t, rejected("User", user, "Cost", "1"))
		err := rejected("User", user, "Cost", "1")
		var limited *ratelimit.LimitedError
		require.ErrorAs(t, err, &limited)
		require.Equal(t, "api", limited.Name)
		after, ok := core.RetryAfter(err)
		require.True(t, ok)
		require.Positive(t, after)
	}
	require.Error(t, rejected(), "without a key")
	require.Error(t, rejected("User", "eve", "Cost", "-"), "the handler is not called")
}

// Only failures are charged, and an exhausted name is refused whatever the password: otherwise the answer to a right guess would tell.
func TestRespond_FailedLogins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.Config{Name: "api", Limits: map[string]ratelimit.Limit{"login": ratelimit.PerMinute(2)}},
			ratelimit.ServerOptions{RateLimit: true, XRateLimit: true, Allow: path("/free")})
		logins := s.plugin.Named("login")
		login := s.plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			take, ok := logins.Respond(w, r, r.FormValue("user"), 1)
			switch {
			case !ok:
				return
			case r.FormValue("password") != "right":
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			require.NoError(t, s.limits.Refund(r.Context(), take))
		}))
		for range 5 {
			w := fetch(login, "/?user=ann&password=right")
			require.Equal(t, 200, w.Code)
			require.Equal(t, []string{`"api";q=1000;w=60`}, w.Header().Values("RateLimit-Policy"), "the fields are those of the request")
		}
		for range 2 {
			require.Equal(t, 401, fetch(login, "/?user=ann&password=wrong").Code)
		}
		time.Sleep(10 * time.Second)
		w := fetch(login, "/?user=ann&password=right")
		require.Equal(t, 429, w.Code)
		require.Equal(t, "50", w.Header().Get("Retry-After"))
		require.Equal(t, "true", w.Header().Get("X-Rate-Limited"))
		require.Equal(t, "2", w.Header().Get("X-RateLimit-Limit"))
		require.Equal(t, []string{`"api";r=992;t=50`, `"login";r=0;t=50`}, w.Header().Values("RateLimit"))
		require.Contains(t, w.Body.String(), `"violated-policies":["login"]`)
		require.Equal(t, 401, fetch(login, "/?user=bob&password=wrong").Code)
		require.Equal(t, 200, fetch(login, "/free?user=ann&password=right").Code, "on the allow list")
		off := s.plugin.Override(t.Context(), func(o *ratelimit.ServerOptions) { o.Disabled = true })
		require.Equal(t, 200, do(login, request(http.MethodGet, "/?user=ann&password=right").WithContext(off)).Code)
		time.Sleep(50 * time.Second)
		require.Equal(t, 200, fetch(login, "/?user=ann&password=right").Code)
	})
}

func TestRespond_StoreFails(t *testing.T) {
	t.Parallel()
	for policy, want := range map[ratelimit.FailurePolicy]int{ratelimit.Allow: 200, ratelimit.Deny: 503} {
		s := serve(t, ratelimit.Config{Name: "api", Store: brokenStore{}, OnStoreError: policy}, ratelimit.ServerOptions{})
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, ok := s.plugin.Respond(w, r, "ann", 1)
			require.Equal(t, want == 200, ok)
		})
		require.Equal(t, want, fetch(h, "/").Code)
	}
	s := serve(t, ratelimit.Config{Limit: ratelimit.PerMinute(1)}, ratelimit.ServerOptions{})
	for n, want := range map[int64]int{-1: 500, 2: 413, 0: 200} {
		require.Equal(t, want, fetch(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.plugin.Respond(w, r, "ann", n) }), "/").Code)
	}
}

// A request that is not served for another reason than a limit does not count for an outer breaker, whoever answers it, also if a Cut lies
// between.
func TestHandler_FailureInACut(t *testing.T) {
	t.Parallel()
	weight := func(n int64, err error) func(*http.Request) (int64, error) {
		return func(*http.Request) (int64, error) { return n, err }
	}
	for name, row := range map[string]struct {
		weight func(*http.Request) (int64, error)
		want   error
	}{
		"store":         {nil, errDown},
		"error":         {weight(0, errDown), errDown},
		"invalid":       {weight(-1, nil), core.ErrConfig},
		"own response":  {weight(0, server.Rejection{Status: 500}), core.ErrRejected},
		"with an error": {weight(0, server.Rejection{Status: 500, Err: errDown}), errDown},
	} {
		for _, hook := range []bool{false, true} {
			var rej server.Rejection
			opts := ratelimit.ServerOptions{Weight: row.weight}
			if hook {
				opts.OnRejected = func(w http.ResponseWriter, _ *http.Request, got server.Rejection) {
					rej = got
					w.WriteHeader(http.StatusInsufficientStorage)
				}
			}
			s := serve(t, ratelimit.Config{Name: "api", Store: brokenStore{}, OnStoreError: ratelimit.Deny}, opts)
			group := core.Must(breaker.NewGroup(breaker.Config{}))
			cut := timeout.NewServer(nil, timeout.ServerOptions{Cut: true})
			for range 6 {
				fetch(breaker.NewServer(group, breaker.ServerOptions{}).Handler(cut.Handler(s)), "/")
			}
			require.Equal(t, breaker.Stats{Ignored: 6}, breaker.Stats{Ignored: group.Stats().Ignored, Failures: group.Stats().Failures}, name)
			if hook {
				require.ErrorIs(t, rej.Err, core.ErrRejected)
				require.ErrorIs(t, rej.Err, row.want)
				require.NotErrorIs(t, rej.Err, ratelimit.ErrLimited)
			}
		}
	}
}

// A client whose body stalls is refused at once, whoever refuses and whoever is around.
func TestHandler_StalledBody(t *testing.T) {
	t.Parallel()
	limiter := func(opts ratelimit.ServerOptions) http.Handler {
		return core.Must(ratelimit.NewServer(core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.PerHour(1)})), opts)).Handler(http.NotFoundHandler())
	}
	spent := ratelimit.ServerOptions{Weight: func(*http.Request) (int64, error) { return 2, nil }}
	own := spent
	own.OnRejected = func(w http.ResponseWriter, _ *http.Request, _ server.Rejection) { w.WriteHeader(http.StatusTeapot) }
	broken := core.Must(breaker.NewGroup(breaker.Config{Initial: breaker.ForcedOpen}))
	for _, tt := range []struct {
		name    string
		handler func() http.Handler
		status  int
		keeps   bool // the connection, as net/http alone would, if the body is here
	}{
		{"limit", func() http.Handler { return limiter(spent) }, 413, true},
		{"OnRejected", func() http.Handler { return limiter(own) }, 418, true},
		{"Block", func() http.Handler { return limiter(ratelimit.ServerOptions{Block: path("/")}) }, 403, true},
		{"Respond", func() http.Handler {
			s := core.Must(ratelimit.NewServer(core.Must(ratelimit.New(ratelimit.Config{Limit: ratelimit.PerHour(1)})), ratelimit.ServerOptions{}))
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = s.Respond(w, r, "ann", 1)
				_, _ = s.Respond(w, r, "ann", 1)
			})
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
					srv := &http.Server{Handler: tt.handler()}
					defer time.Sleep(time.Minute) // net/http waits a moment before it closes
					defer func() { _ = srv.Close() }()
					go func() { _ = srv.Serve(network) }()
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
