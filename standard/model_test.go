package standard_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/outbound/gate"
	"github.com/gresil/gresil/plugins/breaker"
	"github.com/gresil/gresil/plugins/retry"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/standard"
)

// load is many requests, to servers that fail in every way there is.
type load struct {
	requests int
	least    int // of these that must be served
	kinds    int // of ends, of which there must be more
	atOnce   int
	attempt  time.Duration // the limit of one, by which all else is measured
	slack    time.Duration // by which a request may miss its deadline
}

const loadAttempts = 4 // the limit of all is that many times the limit of one

// replies are what a server answers, at random: half of them are good.
func (l load) replies() []resiltest.Reply {
	header := func(name, value string) http.Header { return http.Header{name: {value}} }
	large := strings.Repeat("x", 128<<10)
	bad := []resiltest.Reply{
		{Status: 204},
		{Status: 304},
		{Status: 301, Header: header("Location", "/moved")},
		{Status: 303, Header: header("Location", "/other")},
		{Status: 307, Header: header("Location", "/moved"), Body: "there"},
		{Status: 404, Body: "no"},
		{Status: 408, Body: "late"},
		{Status: 408, Header: header("Connection", "close")},
		{Status: 421, Body: "not here"},
		{Status: 425, Body: "too early"},
		{Status: 429, Header: header("Retry-After", "1")},
		{Status: 500, Body: "oops"},
		{Status: 501},
		{Status: 502, Body: large},
		{Status: 503, Header: header("Retry-After", "1")},
		{Status: 503, Endless: true},
		{Status: 503, Body: "half", Stall: -1},
		{Status: 500, Header: header("Content-Type", "application/json"), Body: "{", Stall: -1},
		{Status: 429, Header: header("Content-Type", "application/json"), Body: "{", Stall: -1},
		{Status: 503, Body: "half", Reset: true},
		{Status: 503, Unread: true, Header: header("Connection", "close")},
		{Status: 413, Unread: true},
		{Body: "early", Unread: true},
		{Body: "slow", Delay: l.attempt / 2},
		{Delay: -1},
		{Delay: l.attempt / 4, Reset: true},
		{Reset: true},
		{Panic: http.ErrAbortHandler},
		{Body: "half", Stall: -1},
		{Body: "half", Reset: true},
		{Body: "half", Header: header("Content-Length", "100")},
		{Body: "trickle", Pace: l.attempt / 10},
		{Endless: true},
		{Body: large},
	}
	return append(bad, slices.Repeat([]resiltest.Reply{{Body: "fine"}}, len(bad))...)
}

func (l load) run(t *testing.T, urls []string, listeners ...net.Listener) {
	t.Helper()
	noGoroutines(t)
	replies := l.replies()
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resiltest.NewScript(replies[rand.IntN(len(replies))]).ServeHTTP(w, r)
	})
	var servers []*resiltest.Server
	for _, li := range listeners {
		servers = append(servers, resiltest.Serve(t, li, answer))
	}
	tr := servers[0].Transport()
	tr.MaxConnsPerHost = l.atOnce / len(urls)
	base := resiltest.Count(t, tr)
	c := newClient(t, standard.ClientConfig{
		Base:    base,
		Total:   timeout.Config{Limit: loadAttempts * l.attempt},
		Attempt: timeout.Config{Limit: l.attempt},
		Retry:   retry.Config{Backoff: backoff.Linear{Delay: l.attempt / 20, Max: l.attempt / 20, Jitter: 1}},
		Breaker: breaker.Config{Failures: -1, Window: 10, OpenDelay: backoff.Constant{Delay: l.attempt / 4}},
	})

	var mu sync.Mutex
	ends := map[string]int{}
	var slowest time.Duration
	var uploads []*resiltest.Body
	note := func(end string, took time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		ends[end]++
		slowest = max(slowest, took)
	}
	track := func(b io.ReadCloser) io.ReadCloser {
		upload := resiltest.WrapBody(b)
		mu.Lock()
		defer mu.Unlock()
		uploads = append(uploads, upload)
		return upload
	}
	// each hop of a redirect has a total of its own, hence the Timeout
	hc := &http.Client{Timeout: loadAttempts * l.attempt, Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.Body != nil { // before a redirect http.Client closes it by itself, and again
			req = req.WithContext(req.Context())
			req.Body = track(req.Body)
			if again := req.GetBody; again != nil { // for an attempt of Retry or of the Gate, or for a repetition by net/http itself
				req.GetBody = func() (io.ReadCloser, error) {
					body, err := again()
					return track(body), err
				}
			}
		}
		return c.Transport.RoundTrip(req)
	})}
	ctx, cancel := context.WithCancel(context.Background()) // which goes on
	t.Cleanup(cancel)
	var workers sync.WaitGroup
	start := time.Now()
	for n := range l.atOnce {
		workers.Go(func() {
			for range l.requests / l.atOnce {
				l.request(ctx, t, hc, urls[n%len(urls)], note)
			}
		})
	}
	workers.Wait()
	t.Logf("%d requests in %v, %d attempts, the slowest took %v", l.requests, time.Since(start).Round(time.Millisecond), base.Requests.Load(), slowest)
	for _, end := range slices.SortedFunc(maps.Keys(ends), func(a, b string) int { return cmp.Compare(ends[b], ends[a]) }) {
		t.Logf("%6d %s", ends[end], end)
	}
	require.LessOrEqual(t, slowest, loadAttempts*l.attempt+l.slack)
	require.Greater(t, ends["200"], l.least)
	require.Greater(t, len(ends), l.kinds)

	require.NoError(t, c.Close())
	require.True(t, resiltest.Eventually(func() bool {
		return base.Settled() && !slices.ContainsFunc(servers, func(s *resiltest.Server) bool { return s.Open.Load() != 0 }) &&
			!slices.ContainsFunc(uploads, func(b *resiltest.Body) bool { return b.Closes() == 0 })
	}), "%d bodies are open, %d requests are in flight, %d uploads are not closed", base.Open.Load(), base.InFlight.Load(),
		len(slices.DeleteFunc(slices.Clone(uploads), func(b *resiltest.Body) bool { return b.Closes() > 0 })))
	for _, b := range uploads {
		require.Equal(t, 1, b.Closes(), "of a request's body")
	}
}

// request makes a request of any kind, and deals with the answer in any way.
func (l load) request(ctx context.Context, t *testing.T, c *http.Client, url string, note func(end string, took time.Duration)) {
	t.Helper()
	bound := loadAttempts * l.attempt
	switch rand.IntN(10) {
	case 0: // leaves
		var leave context.CancelFunc
		ctx, leave = context.WithCancel(ctx)
		defer leave()
		defer time.AfterFunc(rand.N(l.attempt), leave).Stop()
	case 1: // has less time
		bound = l.attempt/10 + rand.N(l.attempt)
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, bound)
		defer stop()
	}
	var body io.Reader
	method := []string{"GET", "HEAD", "DELETE", "PUT", "PUT", "POST", "POST"}[rand.IntN(7)]
	if method[0] == 'P' {
		text := strings.Repeat("upload", []int{1, 1000, 20_000}[rand.IntN(3)])
		if body = strings.NewReader(text); rand.IntN(2) == 0 {
			body = io.NopCloser(body) // which http.NewRequest does not know
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Error(err)
		return
	}
	if rand.IntN(2) == 0 {
		req.Header.Set("Idempotency-Key", "17")
	}
	start := time.Now()
	resp, err := c.Do(req)
	end := ""
	if err == nil {
		end = fmt.Sprint(resp.StatusCode)
		switch rand.IntN(4) {
		case 0: // is not interested
		case 1:
			_, err = io.CopyN(io.Discard, resp.Body, 3)
		default:
			_, err = io.CopyN(io.Discard, resp.Body, 128<<10)
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		_ = resp.Body.Close()
	}
	took := time.Since(start)
	if took > bound+l.slack {
		t.Errorf("%s took %v, and had %v: %v", method, took, bound, err)
	}
	switch {
	case err == nil:
	case errors.Is(err, timeout.ErrTimeout):
		end = "timeout"
	case errors.Is(err, context.Canceled):
		end = "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		end = "deadline of the caller"
	case errors.Is(err, core.ErrRejected):
		end = "rejected"
		wait, _ := core.RetryAfter(err)
		time.Sleep(max(wait, 0)) // as it should: else all that is left of the load would be rejected
	case errors.As(err, new(*breaker.OpenError)), errors.Is(err, gate.ErrLimited):
		end = "rejected after an attempt"
	case errors.Is(err, client.ErrNotReplayable):
		end = "not replayable"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		end = "reset"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		end = "the end of the connection"
	default:
		end = "other: " + cmp.Or(errors.Unwrap(err), err).Error()
	}
	note(end, took)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func (l load) inMemory(t *testing.T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l.run(t, []string{"http://a.test", "http://b.test", "http://c.test", "http://d.test"}, resiltest.NewNetwork())
	})
}

func TestLoadInMemory(t *testing.T) {
	t.Parallel()
	load{requests: 768, least: 76, kinds: 10, atOnce: 64, attempt: 10 * time.Second}.inMemory(t)
}

func (l load) overSockets(t *testing.T) {
	t.Helper()
	var urls []string
	var listeners []net.Listener
	for range 4 {
		li := core.Must(net.Listen("tcp", "127.0.0.1:0"))
		urls, listeners = append(urls, "http://"+li.Addr().String()), append(listeners, li)
	}
	l.run(t, urls, listeners...)
}

func TestLoadOverSockets(t *testing.T) {
	t.Parallel()
	load{requests: 96, kinds: 3, atOnce: 32, attempt: 400 * time.Millisecond, slack: resiltest.Patience}.overSockets(t)
}
