package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/throttled/throttled/v2"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"

	"github.com/gresil/gresil/plugins/ratelimit"
	"github.com/gresil/gresil/server"
)

const (
	apiKey      = "X-Api-Key"
	connections = 16
	clients     = 10_000 // keys
)

// loopbackRows are a real server under load, with a limiter by a header of 10,000
// values and without one. The load comes from this process: its processor time is in
// that of a request, the same for all.
func loopbackRows(s Sizes) []Row {
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	subject := func(name string, role Role, handler func() http.Handler) Subject {
		fields := 3
		if role == Floor {
			fields = 0
		}
		return Subject{Name: name, Role: role, Sample: func() ([]float64, error) { return load(handler(), s.Load, fields) }}
	}
	return []Row{{
		Name: "loopback server: X-RateLimit fields, 10,000 keys", Slow: true,
		Units: []Unit{{Name: "requests/s", Higher: true}, {Name: "µs p50"}, {Name: "µs p99"}, {Name: "µs CPU/request"}},
		Subjects: []Subject{
			subject("fixed window, 4 fields", Ours, func() http.Handler {
				return must(ratelimit.NewServer(must(ratelimit.New(ratelimit.Config{Limit: ratelimit.FixedWindow(plenty, time.Hour)})), ratelimit.ServerOptions{
					Key: server.Header(apiKey), XRateLimit: true,
				})).Handler(next)
			}),
			subject("throttled (token bucket)", Peer, func() http.Handler {
				l := &throttled.HTTPRateLimiterCtx{RateLimiter: newThrottled(taking{}), VaryBy: &throttled.VaryBy{Headers: []string{apiKey}}}
				return l.RateLimit(next)
			}),
			subject("httprate (sliding counter)", Peer, func() http.Handler {
				return httprate.LimitBy(plenty, time.Hour, func(r *http.Request) (string, error) { return r.Header.Get(apiKey), nil })(next)
			}),
			{Name: "go-limiter (fixed window)", Role: Peer, Sample: func() ([]float64, error) {
				store, closed := newGoLimiter(taking{})
				defer closed()
				return load(must(httplimit.NewMiddleware(store, httplimit.IPKeyFunc(apiKey))).Handle(next), s.Load, 3)
			}},
			subject("ulule (fixed window)", Peer, func() http.Handler {
				return stdlib.NewMiddleware(newUlule(taking{}), stdlib.WithKeyGetter(func(r *http.Request) string { return r.Header.Get(apiKey) })).Handler(next)
			}),
			subject("the same 4 fields", Floor, func() http.Handler { return withFields(next, 4) }),
			subject("no limiter", Floor, func() http.Handler { return next }),
		},
	}}
}

// load serves h to connections that each wait for an answer before the next request. Each
// answer has to have so many X-RateLimit fields.
func load(h http.Handler, d time.Duration, fields int) ([]float64, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	defer func() { _ = srv.Close() }()
	go func() { _ = srv.Serve(l) }()

	var (
		all   sync.WaitGroup
		took  [connections][]time.Duration
		fails [connections]error
	)
	if _, err := visitor(ctx, l.Addr().String(), 0, clients, time.Now().Add(time.Hour), fields); err != nil { // so that all keys are there
		return nil, err
	}
	runtime.GC()
	begin := time.Now()
	before, _ := usage()
	for c := range connections {
		all.Go(func() {
			took[c], fails[c] = visitor(ctx, l.Addr().String(), c*clients/connections, 1<<60, begin.Add(d), fields)
		})
	}
	all.Wait()
	passed := time.Since(begin)
	after, _ := usage()
	var each []time.Duration
	for c := range connections {
		if fails[c] != nil {
			return nil, fails[c]
		}
		each = append(each, took[c]...)
	}
	slices.Sort(each)
	n := float64(len(each))
	micro := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
	return []float64{n / passed.Seconds(), micro(each[len(each)/2]), micro(each[len(each)*99/100]), micro(after-before) / n}, nil
}

// visitor sends n requests, but none after the end, from a key on, and returns how
// long each took.
func visitor(ctx context.Context, addr string, key, n int, end time.Time, fields int) ([]time.Duration, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	var took []time.Duration
	in := bufio.NewReader(conn)
	out := []byte("GET / HTTP/1.1\r\nHost: bench\r\n" + apiKey + ": ")
	head := len(out)
	for begin := time.Now(); n > 0 && begin.Before(end); n-- {
		out = fmt.Appendf(out[:head], "key-%05d\r\n\r\n", key%clients)
		key++
		if _, err := conn.Write(out); err != nil {
			return nil, err
		}
		if err := readAnswer(in, fields); err != nil {
			return nil, err
		}
		now := time.Now()
		took = append(took, now.Sub(begin))
		begin = now
	}
	return took, nil
}

// readAnswer reads a response without a body, which has so many X-RateLimit fields.
func readAnswer(in *bufio.Reader, fields int) error {
	for i := 0; ; i++ {
		line, err := in.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case i == 0 && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")):
			return fmt.Errorf("the server answered %q", line)
		case len(bytes.TrimSpace(line)) == 0 && fields > 0:
			return fmt.Errorf("%d fields are missing", fields)
		case len(bytes.TrimSpace(line)) == 0:
			return nil
		case bytes.HasPrefix(line, []byte("X-Ratelimit-")):
			fields--
		}
	}
}
