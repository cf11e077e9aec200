package retry_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/backoff"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/plugins/retry"
)

// These are about what net/http does with connections and bodies.

func to(ctx context.Context, method, url string, body io.Reader) *http.Request {
	return core.Must(http.NewRequestWithContext(ctx, method, url, body))
}

func TestOneConnectionIsEnough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := context.WithoutCancel(t.Context()) // it never ends, and nothing must hang on it
		s := resiltest.NewScript()
		srv := resiltest.Serve(t, resiltest.NewNetwork(), s)
		tr := srv.Transport()
		tr.MaxConnsPerHost = 1
		base := resiltest.Count(t, tr)
		rt := quick(retry.Config{}, retry.ClientOptions{}).Transport(base)
		for n := range int64(50) {
			s.Set(status(503, 1<<20), status(503, 1<<20), resiltest.Reply{Body: "done"})
			resp, err := rt.RoundTrip(to(ctx, http.MethodGet, srv.URL, nil))
			require.NoError(t, err)
			require.Equal(t, []int64{3*n + 3, 1}, []int64{base.Requests.Load(), base.Open.Load()})
			require.Equal(t, "done", string(core.Must(io.ReadAll(resp.Body))))
			require.NoError(t, resp.Body.Close())
		}
	})
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		first resiltest.Reply
		want  []bool
	}{
		"short body": {status(503, 64<<10), []bool{false, true}},
		"endless":    {resiltest.Reply{Status: 503, Endless: true}, []bool{false, false}},
		"408":        {status(408, 10), []bool{false, false}},
		"425":        {status(425, 10), []bool{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				srv := resiltest.Serve(t, resiltest.NewNetwork(), resiltest.NewScript(tt.first, status(200, 0)))
				var reused []bool
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = append(reused, i.Reused) }})
				_, err := do(t, quick(retry.Config{}, retry.ClientOptions{}), srv.Transport(), to(ctx, http.MethodGet, srv.URL, nil))
				require.NoError(t, err)
				require.Equal(t, tt.want, reused)
			})
		})
	}
}

// A stream of any size that was not read is sent again without a copy.
func TestUploadIsNotBuffered(t *testing.T) { //nolint:paralleltest // memory is counted
	const size = 64 << 20
	calls := 0
	rt := quick(retry.Config{}, retry.ClientOptions{}).Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
		if calls++; calls < 3 {
			return nil, &net.OpError{Op: "dial", Err: io.EOF}
		}
		n, err := io.Copy(io.Discard, struct{ io.Reader }{req.Body})
		_ = req.Body.Close()
		require.EqualValues(t, size, n)
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, err
	}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := rt.RoundTrip(request(t.Context(), http.MethodPost, io.LimitReader(zeros{}, size)))
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Equal(t, 3, calls)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// What was not asked for by 100 Continue was not sent, so that it can be sent again.
func TestUploadThatExpectsToContinue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		srv := resiltest.Serve(t, resiltest.NewNetwork(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if requests++; requests < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = io.Copy(w, r.Body)
		}))
		tr := srv.Transport()
		tr.ExpectContinueTimeout, tr.MaxConnsPerHost = time.Minute, 1
		b := resiltest.NewBody("upload")
		req := to(t.Context(), http.MethodPut, srv.URL, b)
		req.ContentLength = 6
		req.Header.Set("Expect", "100-continue")
		resp, err := quick(retry.Config{}, retry.ClientOptions{}).Transport(tr).RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, "upload", string(core.Must(io.ReadAll(resp.Body))))
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 3, requests)
		synctest.Wait()
		require.Equal(t, 1, b.Closes())
	})
}

// Types of frames, as RFC 9113 numbers them.
const (
	frameHeaders  = 1
	frameRST      = 3
	frameSettings = 4
	frameGoAway   = 7
)

func frame(kind, flags byte, stream uint32, payload ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = append(b, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// serveHTTP2 speaks just enough HTTP/2: it asks what to say to each stream, in frames, and if that is nothing, answers 200 once the
// body has ended.
func serveHTTP2(t *testing.T, li net.Listener, refuse func(stream uint32) []byte) {
	t.Helper()
	t.Cleanup(func() { _ = li.Close() })
	serve := func(c net.Conn) {
		defer func() { _ = c.Close() }()
		if _, err := io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
			return
		}
		_, _ = c.Write(frame(frameSettings, 0, 0))
		refused := map[uint32]bool{}
		for head := make([]byte, 9); ; {
			if _, err := io.ReadFull(c, head); err != nil {
				return
			}
			if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head)>>8)); err != nil {
				return
			}
			kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
			if kind == frameSettings && flags == 0 {
				_, _ = c.Write(frame(frameSettings, 1, 0))
			}
			if kind == frameHeaders {
				if no := refuse(stream); no != nil {
					refused[stream] = true
					_, _ = c.Write(no)
				}
			}
			if kind <= frameHeaders && flags&1 != 0 && !refused[stream] {
				_, _ = c.Write(frame(frameHeaders, 5, stream, 0x88)) // :status 200, and the end
			}
		}
	}
	go func() {
		for c, err := li.Accept(); err == nil; c, err = li.Accept() {
			go serve(c)
		}
	}()
}

// A server that refuses a stream did nothing with it, so that a POST is repeated, by net/http itself if there is a GetBody. What the server
// reset in another way, it may have processed. Each body is closed once.
func TestPostThatHTTP2Refuses(t *testing.T) {
	t.Parallel()
	reset := func(code byte) func(uint32) []byte {
		return func(stream uint32) []byte { return frame(frameRST, 0, stream, 0, 0, 0, code) }
	}
	for name, tt := range map[string]struct {
		no    func(stream uint32) []byte
		again bool
	}{
		"REFUSED_STREAM": {reset(7), true},
		"INTERNAL_ERROR": {reset(2), false},
		"CANCEL":         {reset(8), false},
		"GOAWAY":         {func(uint32) []byte { return frame(frameGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) }, true},
	} {
		for _, getBody := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { // net/http waits for longer each time
				var streams atomic.Int32
				network := resiltest.NewNetwork()
				serveHTTP2(t, network, func(stream uint32) []byte {
					if streams.Add(1) == 1 {
						return tt.no(stream)
					}
					return nil
				})
				tr := &http.Transport{DialContext: network.DialContext, Protocols: resiltest.HTTP2()}
				t.Cleanup(tr.CloseIdleConnections)
				p := quick(retry.Config{}, retry.ClientOptions{MaxBuffer: 100})
				bodies := []*resiltest.Body{resiltest.NewBody("order")}
				req := to(t.Context(), http.MethodPost, "http://server.test", bodies[0])
				if getBody {
					req.GetBody = func() (io.ReadCloser, error) {
						bodies = append(bodies, resiltest.NewBody("order"))
						return bodies[len(bodies)-1], nil
					}
				}
				_, err := do(t, p, tr, req)
				require.Equal(t, tt.again, err == nil, "%s: %v", name, err)
				synctest.Wait() // the connection is idle
				require.Equal(t, tt.again && getBody, len(bodies) > 1, name)
				for i, b := range bodies {
					require.Equal(t, 1, b.Closes(), "%s: body %d", name, i)
				}
			})
		}
	}
}

// TestBodies has a row for each way in which a request can end: the caller's body and each response are closed once.
func TestBodies(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	canceled := func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx
	}
	buffer := retry.ClientOptions{MaxBuffer: 100}
	leaving, leave := context.WithCancel(t.Context())
	for name, tt := range map[string]struct {
		cfg      retry.Config
		opts     retry.ClientOptions
		steps    []resiltest.Reply
		getBody  func() (io.ReadCloser, error)
		ctx      func(context.Context) context.Context
		err      error
		status   int
		panics   bool
		attempts int
	}{
		"success":               {steps: []resiltest.Reply{status(200, 0)}, status: 200, attempts: 1},
		"success at last":       {opts: buffer, steps: []resiltest.Reply{status(503, 0), status(503, 0), status(200, 0)}, status: 200, attempts: 3},
		"exhausted":             {opts: buffer, steps: []resiltest.Reply{status(503, 0)}, status: 503, attempts: 3},
		"error at last":         {opts: buffer, steps: []resiltest.Reply{{Err: broken}}, err: broken, attempts: 3},
		"buffer too small":      {opts: retry.ClientOptions{MaxBuffer: 5}, steps: []resiltest.Reply{status(503, 0)}, status: 503, attempts: 1},
		"no buffer":             {steps: []resiltest.Reply{status(503, 0)}, status: 503, attempts: 1},
		"no buffer, error":      {steps: []resiltest.Reply{{Err: io.ErrUnexpectedEOF}}, err: io.ErrUnexpectedEOF, attempts: 1},
		"nothing was read":      {steps: []resiltest.Reply{{Status: 503, Unread: true}, status(200, 0)}, status: 200, attempts: 2},
		"not retryable":         {steps: []resiltest.Reply{status(404, 0)}, status: 404, attempts: 1},
		"one attempt":           {cfg: retry.Config{MaxAttempts: 1}, steps: []resiltest.Reply{status(503, 0)}, status: 503, attempts: 1},
		"rejected":              {opts: buffer, steps: []resiltest.Reply{{Err: errors.Join(broken, core.ErrRejected)}}, err: broken, attempts: 1},
		"context done":          {ctx: canceled, err: context.Canceled},
		"GetBody fails":         {steps: []resiltest.Reply{status(503, 7)}, status: 503, attempts: 1, getBody: func() (io.ReadCloser, error) { return nil, broken }},
		"GetBody fails, error":  {steps: []resiltest.Reply{{Err: io.EOF}}, err: io.EOF, attempts: 1, getBody: func() (io.ReadCloser, error) { return nil, broken }},
		"transport panics":      {steps: []resiltest.Reply{{Panic: "boom"}}, panics: true, attempts: 1},
		"it panics later":       {opts: buffer, steps: []resiltest.Reply{status(503, 0), {Panic: "boom"}}, panics: true, attempts: 2},
		"CheckRetry panics":     {opts: retry.ClientOptions{CheckRetry: func(context.Context, *http.Response, error) (bool, error) { panic("boom") }}, steps: []resiltest.Reply{status(503, 0)}, panics: true, attempts: 1},
		"OnRetry panics":        {cfg: retry.Config{OnRetry: func(context.Context, retry.Retry) { panic("boom") }}, opts: buffer, steps: []resiltest.Reply{status(503, 0)}, panics: true, attempts: 1},
		"ModifyRequest panics":  {opts: retry.ClientOptions{MaxBuffer: 100, ModifyRequest: func(*http.Request, int) error { panic("boom") }}, steps: []resiltest.Reply{status(503, 0)}, panics: true, attempts: 1},
		"ModifyRequest fails":   {opts: retry.ClientOptions{MaxBuffer: 100, ModifyRequest: func(*http.Request, int) error { return broken }}, steps: []resiltest.Reply{status(503, 0)}, err: broken, attempts: 1},
		"ModifyRequest, NoBody": {opts: retry.ClientOptions{MaxBuffer: 100, ModifyRequest: func(req *http.Request, _ int) error { req.Body = http.NoBody; return nil }}, steps: []resiltest.Reply{status(503, 0)}, status: 503, attempts: 3},
		"ModifyRequest, leaves": {opts: retry.ClientOptions{MaxBuffer: 100, ModifyRequest: func(*http.Request, int) error { leave(); return nil }}, steps: []resiltest.Reply{status(503, 0)}, ctx: func(context.Context) context.Context { return leaving }, err: context.Canceled, attempts: 1},
		"CheckRetry's error":    {opts: retry.ClientOptions{CheckRetry: func(context.Context, *http.Response, error) (bool, error) { return false, broken }}, steps: []resiltest.Reply{status(200, 0)}, err: broken, attempts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, ctx := resiltest.NewBody("upload"), t.Context()
			if tt.ctx != nil {
				ctx = tt.ctx(ctx)
			}
			req := request(ctx, http.MethodPut, b)
			req.GetBody = tt.getBody
			s, p := resiltest.NewScript(tt.steps...), quick(tt.cfg, tt.opts)
			if tt.panics {
				require.PanicsWithValue(t, "boom", func() { _, _ = p.Transport(s).RoundTrip(req) })
			} else {
				resp, err := p.Transport(s).RoundTrip(req)
				require.ErrorIs(t, err, tt.err)
				if tt.err == nil {
					require.Equal(t, tt.status, resp.StatusCode)
					require.NoError(t, resp.Body.Close())
				}
			}
			require.Equal(t, tt.attempts, s.Calls())
			require.Equal(t, 1, b.Closes())
			for i, n := range s.Closes() {
				require.Equal(t, 1, n, "response %d", i)
			}
		})
	}
}

// A transport that returns both has failed, such as one over http.Client.Do, which does so if CheckRedirect fails.
func TestResponseTogetherWithError(t *testing.T) {
	t.Parallel()
	failed := errors.New("this redirect is not followed")
	for method, attempts := range map[string]int{http.MethodPost: 1, http.MethodGet: 3} {
		var bodies []*resiltest.Body
		_, err := do(t, quick(retry.Config{MaxAttempts: attempts}, retry.ClientOptions{}), roundTrip(func(req *http.Request) (*http.Response, error) {
			bodies = append(bodies, resiltest.NewBody("moved"))
			return &http.Response{StatusCode: http.StatusFound, Body: bodies[len(bodies)-1], Request: req}, failed
		}), request(t.Context(), method, nil))
		require.ErrorIs(t, err, failed)
		require.Len(t, bodies, attempts)
		for _, b := range bodies {
			require.Equal(t, 1, b.Closes())
		}
	}
}

// A body that ModifyRequest sets may read the one before: each is sent whole and closed once.
func TestBodiesOfModifyRequest(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{true, false} {
		var bodies []*resiltest.Body
		made := func() io.ReadCloser {
			bodies = append(bodies, resiltest.NewBody("text"))
			return bodies[len(bodies)-1]
		}
		req := request(t.Context(), http.MethodPut, made())
		if again {
			req.GetBody = func() (io.ReadCloser, error) { return made(), nil }
		}
		wrap := func(req *http.Request, _ int) error {
			req.Body = resiltest.WrapBody(req.Body)
			bodies = append(bodies, req.Body.(*resiltest.Body))
			return nil
		}
		s := resiltest.NewScript(status(503, 0))
		_, err := do(t, quick(retry.Config{}, retry.ClientOptions{MaxBuffer: 100, ModifyRequest: wrap}), s, req)
		require.NoError(t, err)
		require.Equal(t, 3, s.Calls())
		for _, a := range s.Attempts() {
			require.Equal(t, "text", a.Body)
		}
		for i, b := range bodies {
			require.Positive(t, b.Closes(), i)
		}
	}
}

// The attempt that has failed reads on after its response: then there is no body for another one, and its response is the last.
func TestBodyThatIsReadOn(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]error{"response": nil, "error": io.ErrUnexpectedEOF} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := quick(retry.Config{}, retry.ClientOptions{MaxBuffer: 3})
				policy := p.policy
				b, calls := resiltest.NewBody("upload"), 0
				var sent io.Reader
				ctx := policy.Override(t.Context(), func(c *retry.Config) {
					c.OnRetry = func(context.Context, retry.Retry) { _, _ = io.ReadAll(sent) } // as another goroutine could
				})
				resp, err := p.Transport(roundTrip(func(req *http.Request) (*http.Response, error) {
					calls++
					sent = req.Body
					if reply != nil {
						return nil, reply
					}
					return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: resiltest.NewBody("late")}, nil
				})).RoundTrip(request(ctx, http.MethodPut, b))
				require.Equal(t, 1, calls)
				if reply != nil {
					require.ErrorIs(t, err, reply)
					return
				}
				require.NoError(t, err)
				require.Equal(t, "late", string(core.Must(io.ReadAll(resp.Body))))
				require.NoError(t, resp.Body.Close())
			})
		})
	}
}

func TestBodyThatFailsIsNotRetried(t *testing.T) {
	t.Parallel()
	errRead := errors.New("the disk is gone")
	for name, body := range map[string]io.Reader{
		"at once": iotest.ErrReader(errRead),
		"later":   io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(errRead)),
	} {
		calls := 0
		p := quick(retry.Config{RetryIf: func(error) bool { return true }}, retry.ClientOptions{MaxBuffer: 100})
		_, err := do(t, p, roundTrip(func(req *http.Request) (*http.Response, error) {
			calls++
			_, err := io.ReadAll(req.Body)
			_ = req.Body.Close()
			return nil, err
		}), request(t.Context(), http.MethodPut, body))
		require.ErrorIs(t, err, errRead)
		require.Equal(t, 1, calls, name)
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	const s = time.Second
	stalled := resiltest.Reply{Status: 503, Body: "x", Stall: -1}
	every := func(d time.Duration) retry.Config { return retry.Config{Backoff: backoff.Constant{Delay: d}} }
	for name, tt := range map[string]struct {
		cfg      retry.Config
		replies  []resiltest.Reply
		deadline time.Duration
		waits    []time.Duration
	}{
		"backoff":                     {every(s), []resiltest.Reply{status(503, 0)}, 0, []time.Duration{s, s}},
		"told":                        {every(s), []resiltest.Reply{status(429, 0, "Retry-After: 2")}, 0, []time.Duration{2 * s, 2 * s}},
		"told less":                   {every(3 * s), []resiltest.Reply{status(503, 0, "Retry-After: 2")}, 0, []time.Duration{3 * s, 3 * s}},
		"told of a status 200":        {every(s), []resiltest.Reply{status(200, 0, "Retry-After: 2")}, 0, nil},
		"told of a status 404":        {every(s), []resiltest.Reply{status(404, 0, "Retry-After: 2")}, 0, nil},
		"told the past":               {every(s), []resiltest.Reply{status(503, 0, "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT"), status(200, 0)}, 0, []time.Duration{s}},
		"told a century":              {every(s), []resiltest.Reply{status(503, 0, "Retry-After: 99999999999")}, 0, nil},
		"told MaxInt64":               {every(s), []resiltest.Reply{status(503, 0, "Retry-After: 9223372036854775807")}, 0, nil},
		"told the default maximum":    {every(s), []resiltest.Reply{status(503, 0, "Retry-After: 120"), status(200, 0)}, 0, []time.Duration{120 * s}},
		"told more than it":           {every(s), []resiltest.Reply{status(503, 0, "Retry-After: 121")}, 0, nil},
		"MaxRetryAfter":               {retry.Config{MaxRetryAfter: time.Hour}, []resiltest.Reply{status(503, 0, "Retry-After: 3600"), status(200, 0)}, 0, []time.Duration{3600 * s}},
		"past MaxElapsed":             {retry.Config{MaxElapsed: 30 * s}, []resiltest.Reply{status(503, 0, "Retry-After: 60")}, 0, nil},
		"past the deadline":           {every(s), []resiltest.Reply{status(503, 0, "Retry-After: 60")}, 30 * s, nil},
		"deadline":                    {every(s), []resiltest.Reply{status(503, 0)}, 1500 * time.Millisecond, []time.Duration{s}},
		"draining is part of it":      {every(s), []resiltest.Reply{stalled, status(200, 0)}, 0, []time.Duration{s}},
		"draining takes longer":       {every(0), []resiltest.Reply{stalled, status(200, 0)}, 0, []time.Duration{s / 2}},
		"rejected, RetryRejected":     {retry.Config{RetryRejected: true}, []resiltest.Reply{{Err: &limited{3 * s}}, status(200, 0)}, 0, []time.Duration{3 * s}},
		"rejected for too long":       {retry.Config{RetryRejected: true, MaxRetryAfter: s}, []resiltest.Reply{{Err: &limited{3 * s}}}, 0, nil},
		"rejected, waiting is no use": {retry.Config{RetryRejected: true}, []resiltest.Reply{{Err: &limited{-1}}}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := t.Context(), func() {}
				if tt.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, tt.deadline)
				}
				defer cancel()
				s := resiltest.NewScript(tt.replies...)
				_, _ = do(t, quick(tt.cfg, retry.ClientOptions{}), s, request(ctx, http.MethodPut, nil))
				require.Equal(t, tt.waits, s.Waits())
			})
		})
	}
}

// A limited request was not sent.
type limited struct{ wait time.Duration }

func (l *limited) Error() string             { return "limited" }
func (l *limited) Is(target error) bool      { return target == core.ErrRejected }
func (l *limited) RetryAfter() time.Duration { return l.wait }

func TestCancelInAWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("the user left")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(why) })
		b, s := resiltest.NewBody("upload"), resiltest.NewScript(status(503, 100))
		p := quick(retry.Config{Backoff: backoff.Constant{Delay: time.Hour}}, retry.ClientOptions{MaxBuffer: 10})
		start := time.Now()
		_, err := do(t, p, s, request(ctx, http.MethodPut, b))
		require.Equal(t, time.Minute, time.Since(start), "at once")
		require.ErrorIs(t, err, why)
		e, ok := errors.AsType[*retry.Error](err)
		require.True(t, ok)
		require.Equal(t, "canceled", e.Reason)
		require.Equal(t, []int{1}, s.Closes())
		require.Equal(t, 1, b.Closes())
	})
}

// An error that says that no call was made, or that nothing was sent, is about the last attempt: after one that was sent, it must not
// say so.
func TestNotSentIsAboutAllAttempts(t *testing.T) {
	t.Parallel()
	once, again := retry.Config{}, retry.Config{RetryRejected: true}
	rejected, refused := resiltest.Reply{Err: core.ErrRejected}, resiltest.Reply{Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	for name, tt := range map[string]struct {
		cfg         retry.Config
		first, then resiltest.Reply
		notSent     bool
	}{
		"rejected at once":                         {once, rejected, rejected, true},
		"rejected after a response":                {once, status(503, 9), rejected, false},
		"rejected after an error":                  {once, resiltest.Reply{Err: io.ErrUnexpectedEOF}, rejected, false},
		"all rejected":                             {again, rejected, rejected, true},
		"rejected after a response, RetryRejected": {again, status(503, 9), rejected, false},
		"all refused":                              {once, refused, refused, true},
		"refused after a response":                 {once, status(503, 0), refused, false},
		"refused after an error":                   {once, resiltest.Reply{Err: io.EOF}, refused, false},
	} {
		_, err := do(t, quick(tt.cfg, retry.ClientOptions{}), resiltest.NewScript(tt.first, tt.then), get(t))
		require.Equal(t, tt.notSent, client.NotSent(err), name)
		if tt.then.Err == core.ErrRejected { //nolint:errorlint // it is the very one
			require.Equal(t, tt.notSent, errors.Is(err, core.ErrRejected), name)
		} else {
			require.ErrorIs(t, err, syscall.ECONNREFUSED, name)
			require.ErrorIs(t, err, retry.ErrExhausted, name)
			require.Equal(t, core.Failure, client.Classify(get(t), nil, err), name)
		}
	}
}
