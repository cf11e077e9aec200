package ratelimit_test

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	coreratelimit "github.com/gresil/gresil/core/ratelimit"
	"github.com/gresil/gresil/internal/limits"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
)

const everyHeader = ratelimit.HeaderDraft10 | ratelimit.HeaderDraft03 | ratelimit.HeaderXRateLimit

// TestHeaders_AnInnerLimiterWithoutHeaders: all fields are about the outer one, which gave its permit back.
func TestHeaders_AnInnerLimiterWithoutHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		outer := serve(t, ratelimit.ServerConfig{Name: "outer", Limit: ratelimit.PerHour(10), Headers: everyHeader})
		inner := serve(t, ratelimit.ServerConfig{Name: "inner", Limit: ratelimit.PerMinute(1)})
		h := outer.plugin.Handler(inner)
		require.Equal(t, 200, fetch(h, "/").Code)
		w := fetch(h, "/")
		require.Equal(t, 429, w.Code)
		require.Equal(t, "true", w.Header().Get("X-Rate-Limited"))
		require.Equal(t, "60", w.Header().Get("Retry-After"))
		require.Contains(t, w.Header().Get("RateLimit"), `"outer";r=9`)
		require.Equal(t, "9", w.Header().Get("RateLimit-Remaining"))
		require.Equal(t, "9", w.Header().Get("X-RateLimit-Remaining"))
	})
}

// What an inner limiter refuses was given back by the outer, and it says so.
func TestHeaders_OuterTellsWhatItGaveBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, style := range []ratelimit.HeaderStyle{everyHeader, ratelimit.HeaderDraft03 | ratelimit.HeaderXRateLimit} {
			outer := serve(t, ratelimit.ServerConfig{Name: "outer", Limit: ratelimit.PerHour(1), Headers: style})
			inner := serve(t, ratelimit.ServerConfig{Name: "inner", Limit: ratelimit.PerMinute(1), Headers: style, Key: server.Header("User")})
			h := outer.plugin.Handler(inner)
			require.Equal(t, 200, fetch(inner, "/", "User", "ann").Code)
			w := fetch(h, "/", "User", "ann")
			require.Equal(t, 429, w.Code)
			require.Equal(t, []string{"true"}, w.Header().Values("X-Rate-Limited"))
			if style&ratelimit.HeaderDraft10 != 0 {
				require.Equal(t, []string{`"outer";r=1`, `"inner";r=0;t=60`}, w.Header().Values("RateLimit"), "nothing is missing any more")
				require.Equal(t, []string{`"outer";q=1;w=3600`, `"inner";q=1;w=60`}, w.Header().Values("RateLimit-Policy"))
			}
			// The outer had the same numbers before: it must not take them for its own.
			for _, field := range []string{"RateLimit-", "X-RateLimit-"} {
				require.Equal(t, []string{"0"}, w.Header().Values(field+"Remaining"))
			}
			require.Equal(t, []string{"60"}, w.Header().Values("RateLimit-Reset"))
			requireReset(t, w.Header(), time.Minute)
		}
	})
}

// One that is no limiter has no numbers of its own.
func TestHeaders_ABulkheadInside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, style := range []ratelimit.HeaderStyle{everyHeader} {
			s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(3), Headers: style})
			full := s.plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				server.Reject(w, r, server.Rejection{RetryAfter: time.Second})
			}))
			fetch(s, "/")
			w := fetch(full, "/")
			require.Equal(t, 503, w.Code)
			require.Equal(t, []string{"false"}, w.Header().Values("X-Rate-Limited"), "the limit has not refused")
			require.Equal(t, []string{`"default";r=2;t=3600`}, w.Header().Values("RateLimit"))
			require.Equal(t, []string{"2"}, w.Header().Values("X-RateLimit-Remaining"))
			require.Equal(t, []string{"2"}, w.Header().Values("RateLimit-Remaining"))
		}
	})
}

func TestHeaders_NestedStylesTellTheLeast(t *testing.T) {
	t.Parallel()
	cfg := ratelimit.ServerConfig{Headers: ratelimit.HeaderDraft10 | ratelimit.HeaderDraft03}
	for _, tt := range []struct {
		outer, inner, take int64
		want               string
	}{{10, 5, 0, "5"}, {5, 10, 0, "5"}, {7, 7, 0, "7"}, {5, 10, 6, "10"}} {
		outer := serve(t, with(cfg, func(c *ratelimit.ServerConfig) { c.Name, c.Limit = "outer", ratelimit.PerHour(tt.outer) }))
		inner := charging(t, with(cfg, func(c *ratelimit.ServerConfig) { c.Limit = ratelimit.PerMinute(tt.inner) }), func(_ http.ResponseWriter, _ *http.Request, c *ratelimit.Charge) {
			mustTake(t, c, tt.take)
		})
		w := fetch(outer.plugin.Handler(inner), "/")
		require.Equal(t, []string{tt.want}, w.Header().Values("RateLimit-Limit"))
		require.Len(t, w.Header().Values("RateLimit"), 2)
		require.Equal(t, []string{`"outer";q=` + strconv.FormatInt(tt.outer, 10) + ";w=3600", `"default";q=` + strconv.FormatInt(tt.inner, 10) + ";w=60"}, w.Header().Values("RateLimit-Policy"))
	}
}

// The fields of the outer look like those that the inner would have written.
func TestHeaders_NestedWithTheSameNumbers(t *testing.T) {
	t.Parallel()
	for _, style := range []ratelimit.HeaderStyle{everyHeader, ratelimit.HeaderXRateLimit} {
		outer := serve(t, ratelimit.ServerConfig{Name: "outer", Limit: ratelimit.PerHour(10), Headers: style})
		s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerHour(10), Headers: style}, func(_ http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			require.NoError(t, c.Refund(r.Context()))
		})
		h := fetch(outer.plugin.Handler(s), "/").Header()
		require.Equal(t, "9", h.Get("X-RateLimit-Remaining"))
	}
}

// reverseProxy serves h in a network of its own, and returns a proxy of it.
func reverseProxy(t *testing.T, h http.Handler) *httputil.ReverseProxy {
	t.Helper()
	back := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), h)
	proxy := httputil.NewSingleHostReverseProxy(core.Must(url.Parse(back.URL)))
	proxy.Transport = back.Transport()
	return proxy
}

// An upstream that has limits of its own sends the same fields.
func TestHeaders_ReverseProxy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, style := range []ratelimit.HeaderStyle{everyHeader, ratelimit.HeaderDraft10, 0} {
			upstream := serve(t, ratelimit.ServerConfig{Name: "upstream", Limit: ratelimit.PerHour(1), Headers: everyHeader, Key: func(*http.Request) (string, bool) { return "all", true }})
			proxy := reverseProxy(t, upstream)
			s := serve(t, ratelimit.ServerConfig{Name: "api", Limit: ratelimit.PerMinute(10), Headers: style})
			front := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), s.plugin.Handler(proxy))
			client := http.Client{Transport: front.Transport()}
			for i, want := range []int{200, 429} {
				resp, err := client.Get(front.URL)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, want, resp.StatusCode)
				h := resp.Header
				require.Equal(t, []string{strconv.FormatBool(want == 429)}, h.Values("X-Rate-Limited"), "true whichever refused")
				require.Len(t, h.Values("Retry-After"), i)
				if style == 0 {
					require.Len(t, h.Values("RateLimit"), 1)
					continue
				}
				require.Equal(t, []string{`"api";r=` + strconv.Itoa(9-i) + `;t=60`, `"upstream";r=0;t=3600`}, h.Values("RateLimit"))
				require.Equal(t, []string{`"api";q=10;w=60`, `"upstream";q=1;w=3600`}, h.Values("RateLimit-Policy"))
				if style&ratelimit.HeaderXRateLimit == 0 {
					continue
				}
				for _, field := range []string{"RateLimit-", "X-RateLimit-"} {
					require.Equal(t, []string{"10"}, h.Values(field+"Limit"))
					require.Equal(t, []string{strconv.Itoa(9 - i)}, h.Values(field+"Remaining"))
				}
				require.Equal(t, []string{"60"}, h.Values("RateLimit-Reset"))
				requireReset(t, h, time.Minute)
			}
		}
	})
}

// httputil.ReverseProxy clears the header after it has passed on a 1xx.
func TestHeaders_AfterAnInformationalResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, upstreamStyle := range []ratelimit.HeaderStyle{0, everyHeader} {
			upstream := serve(t, ratelimit.ServerConfig{Name: "upstream", Limit: ratelimit.PerHour(1000), Headers: upstreamStyle})
			proxy := reverseProxy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Link", "</a.css>; rel=preload")
				w.WriteHeader(http.StatusEarlyHints)
				upstream.ServeHTTP(w, r)
			}))
			outer := serve(t, ratelimit.ServerConfig{Name: "outer", Limit: ratelimit.PerHour(9), Headers: everyHeader})
			s := charging(t, ratelimit.ServerConfig{Name: "api", Limit: ratelimit.PerHour(100), Headers: everyHeader}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
				if r.URL.Path == "/take" {
					mustTake(t, c, 1)
				}
				proxy.ServeHTTP(w, r)
			})
			front := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), outer.plugin.Handler(s))
			client := http.Client{Transport: front.Transport()}
			for i, target := range []string{"/", "/take"} {
				resp, err := client.Get(front.URL + target)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				want := []string{`"outer";r=` + strconv.Itoa(8-i) + ";t=3600", `"api";r=` + strconv.Itoa(99-2*i) + ";t=3600"}
				policies := []string{`"outer";q=9;w=3600`, `"api";q=100;w=3600`}
				if upstreamStyle != 0 {
					want, policies = append(want, `"upstream";r=`+strconv.Itoa(999-i)+";t=3600"), append(policies, `"upstream";q=1000;w=3600`)
				}
				require.ElementsMatch(t, want, resp.Header.Values("RateLimit"))
				require.ElementsMatch(t, policies, resp.Header.Values("RateLimit-Policy"))
				require.Equal(t, []string{"false"}, resp.Header.Values("X-Rate-Limited"))
				for _, field := range []string{"RateLimit-", "X-RateLimit-"} {
					require.Equal(t, []string{"9"}, resp.Header.Values(field+"Limit"), "that which has least left")
					require.Equal(t, []string{strconv.Itoa(8 - i)}, resp.Header.Values(field+"Remaining"))
				}
			}
		}
	})
}

// A field of which a part is of draft 07 and a part of draft 10 is of neither.
func TestHeaders_AnUpstreamOfTheOtherDraft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			theirs        [2]string
			limit, policy []string
		}{
			{[2]string{"limit=5, remaining=4, reset=3600", "5;w=3600"}, []string{`"api";r=9;t=3600`}, []string{`"api";q=10;w=3600`}},
			{[2]string{`"up";r=4`, `"up";q=5`}, []string{`"api";r=9;t=3600`, `"up";r=4`}, []string{`"api";q=10;w=3600`, `"up";q=5`}},
		} {
			proxy := reverseProxy(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("RateLimit", tt.theirs[0])
				w.Header().Set("RateLimit-Policy", tt.theirs[1])
			}))
			s := serve(t, ratelimit.ServerConfig{Name: "api", Limit: ratelimit.PerHour(10), Headers: ratelimit.HeaderDraft10})
			h := fetch(s.plugin.Handler(proxy), "/").Header()
			require.Equal(t, tt.limit, h.Values("RateLimit"))
			require.Equal(t, tt.policy, h.Values("RateLimit-Policy"))
		}
	})
}

// As a proxy of one's own does it, or a cache.
func TestHeaders_AHandlerThatAssigns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		theirs := http.Header{"Ratelimit": {`"up";r=1`}, "Ratelimit-Policy": {`"up";q=9`}, "X-Rate-Limited": {"false"}, "Age": {"5"}}
		s := charging(t, ratelimit.ServerConfig{Name: "api", Limit: ratelimit.PerHour(9), Headers: ratelimit.HeaderDraft10}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			maps.Copy(w.Header(), theirs)
			if r.URL.Path == "/take" {
				mustTake(t, c, 1)
			}
		})
		w := fetch(s, "/")
		require.Equal(t, []string{`"api";r=8;t=3600`, `"up";r=1`}, w.Header().Values("RateLimit"))
		require.Equal(t, []string{`"api";q=9;w=3600`, `"up";q=9`}, w.Header().Values("RateLimit-Policy"))
		w = fetch(s, "/take")
		require.ElementsMatch(t, []string{`"api";r=6;t=3600`, `"up";r=1`}, w.Header().Values("RateLimit"))
		require.ElementsMatch(t, []string{`"api";q=9;w=3600`, `"up";q=9`}, w.Header().Values("RateLimit-Policy"))
		require.Equal(t, http.Header{"Ratelimit": {`"up";r=1`}, "Ratelimit-Policy": {`"up";q=9`}, "X-Rate-Limited": {"false"}, "Age": {"5"}}, theirs, "which may be kept by the cache")
	})
}

// A handler that has kept the header finds it as it was.
func TestHeaders_AKeptHeaderStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var kept http.Header
		s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.PerMinute(9), Headers: everyHeader}, func(w http.ResponseWriter, _ *http.Request, c *ratelimit.Charge) {
			kept = maps.Clone(w.Header())
			mustTake(t, c, 1)
		})
		require.Equal(t, `"default";r=7;t=60`, fetch(s, "/").Header().Get("RateLimit"))
		require.Equal(t, `"default";r=8;t=60`, kept.Get("RateLimit"))
		require.Equal(t, "8", kept.Get("X-RateLimit-Remaining"))
	})
}

// What is taken out on purpose does not come back.
func TestHeaders_DeletedOnPurpose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		drop := func(w http.ResponseWriter) {
			for _, field := range []string{"X-Rate-Limited", "RateLimit", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
				w.Header().Del(field)
			}
			w.Header().Set("RateLimit-Policy", "mine")
		}
		byHook := ratelimit.ServerConfig{Headers: everyHeader, OnSuccess: func(w http.ResponseWriter, _ *http.Request, _ ratelimit.Info) { drop(w) }}
		for _, cfg := range []ratelimit.ServerConfig{byHook, {Headers: everyHeader}} {
			s := charging(t, cfg, func(w http.ResponseWriter, _ *http.Request, c *ratelimit.Charge) {
				if cfg.OnSuccess == nil {
					drop(w)
					w.Header().Del("RateLimit-Policy")
				}
				mustTake(t, c, 1)
			})
			want := http.Header{}
			if cfg.OnSuccess != nil {
				want.Set("RateLimit-Policy", "mine")
			}
			require.Equal(t, want, fetch(s, "/").Header())
		}
	})
}

func TestHeaders_OnEveryResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := charging(t, ratelimit.ServerConfig{Name: "api", Limit: ratelimit.PerHour(100), Headers: everyHeader}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
			mustTake(t, c, 1)
			switch r.URL.Path {
			case "/304":
				w.WriteHeader(http.StatusNotModified)
			case "/early":
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusNoContent)
			case "/stream":
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
				mustTake(t, c, 50) // too late to be told
				_, _ = io.WriteString(w, "event")
			case "/copy":
				_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", 5000)))
			case "/panic":
				panic("handler")
			case "/file":
				http.ServeContent(w, r, "a.txt", time.Unix(1, 0), strings.NewReader("content"))
			}
		})
		r := chi.NewRouter()
		r.Use(middleware.RequestLogger(quiet{}), middleware.Recoverer)
		r.Handle("/*", s)
		srv := httptest.NewServer(r)
		t.Cleanup(srv.Close)
		for target, want := range map[string]int{"/": 200, "/304": 304, "/early": 204, "/stream": 200, "/copy": 200, "/panic": 500, "/file": 200} {
			require.NoError(t, s.plugin.Limiter().Reset(t.Context(), "127.0.0.1"))
			resp, err := srv.Client().Get(srv.URL + target)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want, resp.StatusCode, target)
			require.Equal(t, []string{`"api";r=98;t=3600`}, resp.Header.Values("RateLimit"), target)
			require.Equal(t, []string{`"api";q=100;w=3600`}, resp.Header.Values("RateLimit-Policy"), target)
			require.Equal(t, []string{"98"}, resp.Header.Values("X-RateLimit-Remaining"), target)
			require.Equal(t, []string{"98"}, resp.Header.Values("RateLimit-Remaining"), target)
			require.Equal(t, []string{"false"}, resp.Header.Values("X-Rate-Limited"), target)
		}
	})
}

// quiet logs nothing; a Recoverer writes to standard error otherwise.
type quiet struct{}

func (quiet) NewLogEntry(*http.Request) middleware.LogEntry   { return quiet{} }
func (quiet) Write(int, int, http.Header, time.Duration, any) {}
func (quiet) Panic(any, []byte)                               {}

// A connection that was taken over is none of our business any more.
func TestHeaders_HijackedAndUpgraded(t *testing.T) {
	t.Parallel()
	after := make(chan http.Header, 2)
	s := charging(t, ratelimit.ServerConfig{Limit: ratelimit.TokenBucket(100, time.Hour, 100), Headers: everyHeader}, func(w http.ResponseWriter, r *http.Request, c *ratelimit.Charge) {
		defer func() { after <- w.Header().Clone() }()
		mustTake(t, c, 7)
		if r.URL.Path == "/upgrade" {
			w.Header().Set("Upgrade", "echo")
			w.Header().Set("Connection", "Upgrade")
			w.WriteHeader(http.StatusSwitchingProtocols)
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if r.URL.Path != "/upgrade" {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
		_ = conn.Close()
		mustTake(t, c, 1)
	})
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	for _, target := range []string{"/hijack", "/upgrade"} {
		require.NoError(t, s.plugin.Limiter().Reset(t.Context(), "127.0.0.1"))
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		require.NoError(t, err)
		_, err = io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.NoError(t, conn.Close())
		require.Equal(t, target == "/upgrade", resp.StatusCode == http.StatusSwitchingProtocols)
		h := <-after
		if target == "/hijack" {
			require.Empty(t, h, "what a handler sends by itself has none of them either")
		} else {
			require.Equal(t, http.Header{"Upgrade": {"echo"}, "Connection": {"Upgrade"}}, h)
		}
		for field := range resp.Header {
			require.NotContains(t, field, "Rate")
		}
		require.EqualValues(t, 91, left(t, s, "127.0.0.1"))
	}
}

// A ReverseProxy sends the header of an upgrade itself, after Hijack.
func TestHeaders_UpgradedByAProxy(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\nX-Upstream: 1\r\n\r\n")
		}
		if err == nil {
			err = conn.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(upstream.Close)
	proxy := httputil.NewSingleHostReverseProxy(core.Must(url.Parse(upstream.URL)))
	limit := timeout.NewServer(nil, timeout.ServerOptions{})
	for name, handler := range map[string]http.Handler{"alone": proxy, "below a timeout": limit.Handler(proxy)} {
		s := serve(t, ratelimit.ServerConfig{Headers: everyHeader})
		srv := httptest.NewServer(s.plugin.Handler(handler))
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		require.NoError(t, err, name)
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
		require.NoError(t, err, name)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, name)
		require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode, name)
		require.Equal(t, http.Header{"Upgrade": {"echo"}, "Connection": {"Upgrade"}, "X-Upstream": {"1"}}, resp.Header, name)
		require.NoError(t, conn.Close(), name)
		srv.Close()
	}
}

// The files of a form are removed by net/http, which looks at its own request.
func TestServer_MultipartFilesAreRemoved(t *testing.T) {
	t.Parallel()
	var file string
	s := serve(t, ratelimit.ServerConfig{})
	srv := httptest.NewServer(s.plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1); err != nil {
			t.Error(err)
			return
		}
		f, err := r.MultipartForm.File["a"][0].Open()
		if err != nil {
			t.Error(err)
			return
		}
		if on, ok := f.(*os.File); ok {
			file = on.Name()
		}
		_ = f.Close()
	})))
	body := "--x\r\nContent-Disposition: form-data; name=\"a\"; filename=\"a\"\r\n\r\n" + strings.Repeat("a", 11<<20) + "\r\n--x--\r\n"
	resp, err := srv.Client().Post(srv.URL, "multipart/form-data; boundary=x", strings.NewReader(body))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	srv.Close()
	require.NotEmpty(t, file)
	_, err = os.Stat(file)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestHeaders_JoinedLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.ServerConfig{Name: "api", Limit: ratelimit.PerSecond(2).And(ratelimit.PerHour(3)), Headers: everyHeader})
		w := fetch(s, "/")
		require.Equal(t, []string{`"api-1s";q=2;w=1, "api-1h";q=3;w=3600`}, w.Header().Values("RateLimit-Policy"))
		require.Equal(t, []string{`"api-1s";r=1;t=1`}, w.Header().Values("RateLimit"), "the one that counts")
		require.Equal(t, "2", w.Header().Get("X-RateLimit-Limit"))
		time.Sleep(time.Second)
		require.Equal(t, 200, fetch(s, "/").Code)
		time.Sleep(time.Second)
		w = fetch(s, "/")
		require.Equal(t, []string{`"api-1h";r=0;t=3598`}, w.Header().Values("RateLimit"))
		w = fetch(s, "/")
		require.Equal(t, 429, w.Code)
		require.Equal(t, []string{`"api-1h";r=0;t=3598`}, w.Header().Values("RateLimit"))
		require.Equal(t, "3598", w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), `"violated-policies":["api-1h"]`)
		time.Sleep(3598 * time.Second)
		require.Equal(t, 200, fetch(s, "/").Code)

		s = serve(t, ratelimit.ServerConfig{
			Name: "api", Headers: ratelimit.HeaderDraft10,
			Limit: ratelimit.PerMinute(9).And(ratelimit.TokenBucket(5, time.Minute, 5)).And(ratelimit.FixedWindow(4, 90*time.Second)).And(ratelimit.FixedWindow(3, 300*time.Millisecond)),
		})
		require.Equal(t, `"api-1m";q=9;w=60, "api-1m-2";q=5;w=60, "api-1m30s";q=4;w=90, "api-300ms";q=3`, fetch(s, "/").Header().Get("RateLimit-Policy"))
	})
}

func TestHeaders_Draft03(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			limit          ratelimit.Limit
			cost           string
			limits, reset  string
			code           int
			left, retryAft string
		}{
			{ratelimit.PerMinute(10), "1", "10", "60", 200, "9", ""},
			{ratelimit.PerMinute(10), "0", "10", "0", 200, "10", ""},
			{ratelimit.TokenBucket(10, time.Second, 20), "5", "20", "1", 200, "15", ""},
			{ratelimit.FixedWindow(5, 250*time.Millisecond), "5", "5", "1", 200, "0", ""},
			{ratelimit.PerMinute(10), "11", "10", "0", 413, "10", ""},
		} {
			s := serve(t, ratelimit.ServerConfig{Limit: tt.limit, Weight: cost, Headers: ratelimit.HeaderDraft03})
			w := fetch(s, "/", "Cost", tt.cost)
			require.Equal(t, tt.code, w.Code)
			require.Equal(t, []string{tt.limits, tt.left, tt.reset}, []string{w.Header().Get("RateLimit-Limit"), w.Header().Get("RateLimit-Remaining"), w.Header().Get("RateLimit-Reset")})
			require.Equal(t, tt.retryAft, w.Header().Get("Retry-After"))
		}
	})
}

// Whatever the limit, and however it is refused: Retry-After is never earlier than t,
// and enough, and a second less would not be.
func TestRetryAfterIsEnough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []ratelimit.Limit{
			ratelimit.PerMinute(3), ratelimit.TokenBucket(3, 10*time.Second, 5), ratelimit.SlidingWindow(4, 70*time.Second, 7), ratelimit.SlidingCounter(5, 33*time.Second),
			ratelimit.SlidingLog(3, 1700*time.Millisecond), ratelimit.AlignedWindow(3, time.Minute), ratelimit.PerSecond(3).And(ratelimit.TokenBucket(1, 7*time.Second, 4)),
		} {
			s := serve(t, ratelimit.ServerConfig{Limit: limit, Headers: everyHeader, Weight: cost, Layers: []ratelimit.Layer{{Name: "all", Limit: ratelimit.TokenBucket(1, 3*time.Second, 9)}}})
			time.Sleep(1234 * time.Millisecond)
			refused := 0
			for i := range 60 {
				n := strconv.Itoa(1 + i%3)
				w := fetch(s, "/", "Cost", n)
				if w.Code == 200 {
					continue
				}
				refused++
				require.Equal(t, 429, w.Code)
				after, err := strconv.Atoi(w.Header().Get("Retry-After"))
				require.NoError(t, err)
				for _, field := range []string{"RateLimit-Reset"} {
					reset, err := strconv.Atoi(w.Header().Get(field))
					require.NoError(t, err)
					require.GreaterOrEqual(t, after, reset, "%v", limit)
				}
				time.Sleep(time.Duration(after-1) * time.Second)
				if after > 1 {
					require.Equal(t, 429, fetch(s, "/", "Cost", n).Code, "%v: %d s were too much", limit, after)
				}
				time.Sleep(time.Second)
				require.Equal(t, 200, fetch(s, "/", "Cost", n).Code, "%v: after %d s", limit, after)
			}
			require.Greater(t, refused, 10, limit)
		}
	})
}

// A limit that is changed, or that one key has for itself, is told as it is.
func TestHeaders_LimitsThatChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, ratelimit.ServerConfig{Limit: ratelimit.TokenBucket(10, time.Minute, 10), Headers: everyHeader, Key: server.Header("User")})
		require.NoError(t, s.plugin.Limiter().SetKeyLimit("ann", ratelimit.TokenBucket(2, time.Second, 2)))
		w := fetch(s, "/", "User", "ann")
		require.Equal(t, `"default";q=2`, w.Header().Get("RateLimit-Policy"))
		require.Equal(t, `"default";r=1;t=1`, w.Header().Get("RateLimit"))
		require.Equal(t, `"default";q=10;w=60`, fetch(s, "/", "User", "bob").Header().Get("RateLimit-Policy"))
		for range 2 {
			require.NoError(t, s.plugin.Limiter().SetLimit(ratelimit.TokenBucket(20, time.Minute, 20)))
			require.Equal(t, `"default";q=20;w=60`, fetch(s, "/", "User", "bob").Header().Get("RateLimit-Policy"))
		}
		require.NoError(t, s.plugin.Limiter().SetLimit(ratelimit.TokenBucket(30, time.Minute, 30)))
		require.Equal(t, `"default";q=30;w=60`, fetch(s, "/", "User", "bob").Header().Get("RateLimit-Policy"))
	})
}

// wild is a store whose numbers are beyond anything.
type wild struct{ coreratelimit.Result }

func (s wild) Open(string) (limits.Table, error)   { return s, nil }
func (wild) Close() error                          { return nil }
func (wild) Plan([]limits.Spec) (limits.ID, error) { return 1, nil }
func (s wild) Apply(context.Context, string, limits.ID, limits.Op) (coreratelimit.Result, error) {
	return s.Result, nil
}

func TestHeaders_NumbersThatNoIntegerHolds(t *testing.T) {
	t.Parallel()
	r := coreratelimit.Result{Allowed: true, Limit: 1 << 62, Remaining: 1 << 62, NextAfter: 1<<63 - 1, FullAfter: 1<<63 - 1, Which: 9}
	h := fetch(serve(t, ratelimit.ServerConfig{Store: wild{r}, Headers: everyHeader}), "/").Header()
	require.Equal(t, `"default";q=999999999999999`, h.Get("RateLimit-Policy"))
	require.Equal(t, `"default";r=999999999999999;t=9223372037`, h.Get("RateLimit"))
	require.Equal(t, "999999999999999", h.Get("X-RateLimit-Remaining"))
	r.Remaining, r.Which = -5, -1
	h = fetch(serve(t, ratelimit.ServerConfig{Store: wild{r}, Headers: everyHeader}), "/").Header()
	require.Equal(t, `"default";r=0;t=9223372037`, h.Get("RateLimit"))
}
