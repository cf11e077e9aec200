package bench

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
	failsafe "github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/throttled/throttled/v2"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"golang.org/x/time/rate"

	"github.com/gresil/gresil/plugins/ratelimit"
)

// A sink is a writer that keeps nothing but the status.
type sink struct {
	header http.Header
	status int
	_      [112]byte // no other goroutine's in its cache line
}

func newSink() *sink { return &sink{header: http.Header{}} }

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(status int)      { s.status = status }

// A visit is the body of a request, and remembers whether the handler was reached.
type visit struct {
	reached bool
	_       [127]byte
}

func (*visit) Read([]byte) (int, error) { return 0, io.EOF }
func (*visit) Close() error             { return nil }

func newRequest() *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", http.NoBody)
	r.RemoteAddr = "10.0.0.0:4711"
	return r
}

// empty is the handler: it writes nothing.
func empty() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { r.Body.(*visit).reached = true })
}

// serve serves requests from the address that is the key. The response must have so many
// header fields, and the request must reach the handler, or have the status 429.
func serve(h http.Handler, fields int, refused bool) Work {
	return Work{New: func() Op {
		w, r, v := newSink(), newRequest(), new(visit)
		r.Body = v
		return func(key string) bool {
			clear(w.header)
			w.status, v.reached, r.RemoteAddr = 0, false, key
			h.ServeHTTP(w, r)
			return v.reached != refused && refused == (w.status == http.StatusTooManyRequests) && len(w.header) >= fields
		}
	}}
}

func remoteAddr(i int) string { return address(i) + ":4711" }

const byIP = "one limiter for all, no keys, no fields"

func serverRows(s Sizes) []Row {
	var rows []Row
	add := func(r Row) {
		r.Key = remoteAddr
		rows = append(rows, serialAndParallel(r)...)
	}
	for _, keys := range []struct {
		n    int
		text string
	}{{1, "1 key"}, {s.Many, "100,000 keys"}} {
		add(Row{Name: "server: X-RateLimit fields, " + keys.text, Keys: keys.n, Subjects: handlers(taking{}, keys.n)})
		add(Row{Name: "server: all fields, " + keys.text, Keys: keys.n, Subjects: []Subject{
			ours("fixed window, 6 fields", func() Work {
				return serve(oursAround(taking{}, ratelimit.ServerOptions{XRateLimit: true, RateLimit: true}), 6, false)
			}),
			floorServer(keys.n, 6, taking{}),
		}})
	}
	add(Row{Name: "server: no fields, 1 key", Subjects: bareHandlers()})
	add(Row{Name: "server: X-RateLimit fields, 1 key, refused", Subjects: handlers(taking{refused: true}, 1)})
	return rows
}

// floorServer takes of a table by the address, formats the fields that change and sets
// those that do not, and gives the handler a recorder of 64 bytes.
func floorServer(keys, fields int, t taking) Subject {
	return floorOf("table, recorder and fields", func() Work {
		table := newFloorTable(keys, t)
		pass, left := withFields(empty(), fields-fields/2), int64(1<<30)
		refuse := withFields(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }), fields-fields/2)
		return serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			allowed := table.take(hostOf(r), 1)
			for i := range fields / 2 {
				h[changing[i]] = []string{strconv.FormatInt(left+int64(i), 10)}
			}
			if allowed {
				pass.ServeHTTP(&floorRecorder{ResponseWriter: w}, r)
			} else {
				refuse.ServeHTTP(w, r)
			}
		}), fields, t.refused)
	})
}

// changing are the names of the fields that change.
var changing = [...]string{"X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Ratelimit"}

type floorRecorder struct {
	http.ResponseWriter
	_ [48]byte
}

func hostOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

func oursAround(t taking, opts ratelimit.ServerOptions) http.Handler {
	limits := must(ratelimit.New(ratelimit.Config{Limit: ratelimit.FixedWindow(t.permits(), time.Hour)}))
	return must(ratelimit.NewServer(limits, opts)).Handler(empty())
}

// handlers limit by the client's address, as each of them finds it out, and send three
// fields: the limit, the remaining permits, and the reset.
func handlers(t taking, keys int) []Subject {
	around := func(name string, handler func() http.Handler) Subject {
		return peer(name, func() Work { return serve(handler(), 3, t.refused) })
	}
	return []Subject{
		ours("fixed window, 4 fields", func() Work { return serve(oursAround(t, ratelimit.ServerOptions{XRateLimit: true}), 4, t.refused) }),
		around("throttled (token bucket)", func() http.Handler {
			l := &throttled.HTTPRateLimiterCtx{RateLimiter: newThrottled(t), VaryBy: &throttled.VaryBy{RemoteAddr: true}}
			return l.RateLimit(empty())
		}),
		around("httprate (sliding counter)", func() http.Handler {
			return httprate.LimitBy(int(t.permits()), time.Hour, byAddress)(empty())
		}),
		peer("go-limiter (fixed window)", func() Work {
			store, closed := newGoLimiter(t)
			w := serve(must(httplimit.NewMiddleware(store, httplimit.IPKeyFunc())).Handle(empty()), 3, t.refused)
			w.Close = closed
			return w
		}),
		around("ulule (fixed window)", func() http.Handler { return stdlib.NewMiddleware(newUlule(t)).Handler(empty()) }),
		floorServer(keys, 4, t),
	}
}

// byAddress is the key that httprate's documentation gives.
func byAddress(r *http.Request) (string, error) { return httprate.CanonicalizeIP(hostOf(r)), nil }

// onlyAsks says in what ten lines by hand are no middleware.
const onlyAsks = "not a middleware but ten lines for one limit and one key, which send no field and keep every client for ever"

// bareHandlers send no fields; ours sends X-Rate-Limited all the same.
func bareHandlers() []Subject {
	return []Subject{
		ours("fixed window, 1 field", func() Work { return serve(oursAround(taking{}, ratelimit.ServerOptions{}), 1, false) }),
		peer("httprate (sliding counter)", func() Work {
			return serve(httprate.LimitBy(plenty, time.Hour, byAddress, httprate.WithResponseHeaders(httprate.ResponseHeaders{}))(empty()), 0, false)
		}),
		unlike("x/time/rate, sync.Map, by hand (token bucket)", onlyAsks, func() Work {
			limiters := newPerKey(func() *rate.Limiter { return rate.NewLimiter(plenty, plenty) })
			next := empty()
			return serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !limiters.get(hostOf(r)).Allow() {
					http.Error(w, "too many requests", http.StatusTooManyRequests)
					return
				}
				next.ServeHTTP(w, r)
			}), 0, false)
		}),
		unlike("failsafehttp", byIP, func() Work {
			limiter := failsafe.NewBursty[*http.Response](plenty, time.Hour) //nolint:bodyclose // a type argument
			return serve(failsafehttp.NewHandler(empty(), limiter), 0, false)
		}),
		floorServer(1, 0, taking{}),
	}
}
