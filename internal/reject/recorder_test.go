package reject_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/reject"
	"github.com/gresil/gresil/server"
)

type (
	bare    struct{ http.ResponseWriter }
	flusher struct{ flushed *int }
	hijack  struct{ err error }
	reader  struct{ w io.Writer }
)

func (f flusher) Flush() { *f.flushed++ }
func (h hijack) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, h.err
}
func (r reader) ReadFrom(src io.Reader) (int64, error) { return io.Copy(r.w, src) }

// writers returns a writer for each combination of the optional interfaces.
func writers(w http.ResponseWriter) map[string]http.ResponseWriter {
	b, f, h, r := bare{w}, flusher{new(int)}, hijack{}, reader{w}
	type (
		fl = struct {
			bare
			flusher
		}
		hi = struct {
			bare
			hijack
		}
		fh = struct {
			fl
			hijack
		}
	)
	return map[string]http.ResponseWriter{
		"---": b, "F--": fl{b, f}, "-H-": hi{b, h}, "FH-": fh{fl{b, f}, h},
		"--R": struct {
			bare
			reader
		}{b, r},
		"F-R": struct {
			fl
			reader
		}{fl{b, f}, r},
		"-HR": struct {
			hi
			reader
		}{hi{b, h}, r},
		"FHR": struct {
			fh
			reader
		}{fh{fl{b, f}, h}, r},
	}
}

// capabilities names the optional interfaces that w has.
func capabilities(w http.ResponseWriter) string {
	s := []byte("---")
	if _, has := w.(http.Flusher); has {
		s[0] = 'F'
	}
	if _, has := w.(http.Hijacker); has {
		s[1] = 'H'
	}
	if _, has := w.(io.ReaderFrom); has {
		s[2] = 'R'
	}
	return string(s)
}

func TestRecorder_Capabilities(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(maps.Keys(writers(httptest.NewRecorder())))
	require.Len(t, names, 8)
	for _, has := range names {
		want := has
		if want != "FHR" {
			want = has[:2] + "-" // ReaderFrom comes with the other two
		}
		t.Run(has, func(t *testing.T) {
			t.Parallel()
			inner := writers(httptest.NewRecorder())[has] // of its own: it is written to
			require.Equal(t, has, capabilities(inner))
			w, rec := record(inner)
			require.Equal(t, want, capabilities(w))
			_, flushError := w.(interface{ FlushError() error })
			require.Equal(t, want[0] == 'F', flushError)
			require.Equal(t, inner, w.(interface{ Unwrap() http.ResponseWriter }).Unwrap())

			if r, has := w.(io.ReaderFrom); has {
				n, err := r.ReadFrom(strings.NewReader("four"))
				require.NoError(t, err)
				require.EqualValues(t, 4, n)
				require.Equal(t, 200, rec.Status())
			}
			if f, has := w.(http.Flusher); has {
				f.Flush()
				require.NoError(t, http.NewResponseController(w).Flush())
				require.Equal(t, 200, rec.Status())
			}
			if h, has := w.(http.Hijacker); has {
				_, _, err := h.Hijack()
				require.NoError(t, err)
				require.True(t, rec.Wrote())
			}
		})
	}
}

func TestRecorder_Status(t *testing.T) {
	t.Parallel()
	send := func(statuses ...int) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for _, status := range statuses {
				w.WriteHeader(status)
			}
		}
	}
	for name, tt := range map[string]struct {
		handler func(w http.ResponseWriter)
		status  int // sent, or as it would be
		told    []int
	}{
		"nothing":                {send(), 200, nil},
		"header":                 {send(404), 404, []int{404}},
		"first counts":           {send(201, 500), 201, []int{201}},
		"early hints":            {send(103), 200, nil},
		"early hints, then more": {send(103, 102, 503), 503, []int{503}},
		"hints and body":         {func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints); _, _ = w.Write(nil) }, 200, []int{200}},
		"switching protocols":    {send(101), 101, []int{101}},
		"write":                  {func(w http.ResponseWriter) { _, _ = w.Write([]byte("abc")) }, 200, []int{200}},
		"empty write":            {func(w http.ResponseWriter) { _, _ = w.Write(nil) }, 200, []int{200}},
		"string, late header": {func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "x")
			w.WriteHeader(http.StatusInternalServerError)
		}, 200, []int{200}},
		"flush":            {func(w http.ResponseWriter) { w.(http.Flusher).Flush(); send(500)(w) }, 200, []int{200}},
		"flush controller": {func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, 200, []int{200}},
		"upgrade":          {func(w http.ResponseWriter) { send(101)(w); _, _, _ = w.(http.Hijacker).Hijack() }, 101, []int{101}},
		"hijack":           {func(w http.ResponseWriter) { _, _, _ = w.(http.Hijacker).Hijack(); send(500)(w) }, 0, []int{0}},
		"empty copy":       {func(w http.ResponseWriter) { _, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("")) }, 200, nil},
		"copy":             {func(w http.ResponseWriter) { _, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("x")) }, 200, []int{200}},
		"no status":        {func(w http.ResponseWriter) { require.Panics(t, func() { w.WriteHeader(1000) }) }, 200, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, rec := record(writers(httptest.NewRecorder())["FHR"])
			var told []int
			rec.Observe(on(func(status int) {
				require.Equal(t, status, rec.Status())
				told = append(told, status)
			}))
			tt.handler(w)
			require.Equal(t, tt.told, told)
			require.Equal(t, tt.status, rec.Status())
			require.Equal(t, tt.told != nil, rec.Wrote())
		})
	}
}

// on is a function as an observer.
type on func(status int)

func (f on) OnHeader(status int) { f(status) }

func TestRecorder_FailedRead(t *testing.T) {
	t.Parallel()
	inner := httptest.NewRecorder()
	w, rec := record(writers(inner)["FHR"])
	broken := errors.New("broken source")
	_, err := w.(io.ReaderFrom).ReadFrom(io.MultiReader(iotestErr{broken}))
	require.ErrorIs(t, err, broken)
	require.False(t, rec.Wrote())
	w.WriteHeader(http.StatusBadGateway)
	require.Equal(t, 502, rec.Status())
	require.Equal(t, 502, inner.Code)
}

type iotestErr struct{ err error }

func (e iotestErr) Read([]byte) (int, error) { return 0, e.err }

func TestRecorder_FailedHijack(t *testing.T) {
	t.Parallel()
	w, rec := record(struct {
		bare
		hijack
	}{bare{httptest.NewRecorder()}, hijack{errors.New("no")}})
	_, _, err := w.(http.Hijacker).Hijack()
	require.Error(t, err)
	require.False(t, rec.Wrote())
	require.Equal(t, 200, rec.Status())
}

func TestRecorder_FlushError(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	w, rec := record(flushErr{bare{httptest.NewRecorder()}, gone})
	require.ErrorIs(t, http.NewResponseController(w).Flush(), gone)
	require.Equal(t, 200, rec.Status())
}

type flushErr struct {
	bare
	err error
}

func (f flushErr) Flush()            {}
func (f flushErr) FlushError() error { return f.err }

// Over a real connection: what the writer of net/http can do still works.
func TestRecorder_RealServer(t *testing.T) {
	t.Parallel()
	var rec *reject.Recorder
	done := make(chan struct{}, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/copy", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, strings.NewReader(strings.Repeat("x", 100_000)))
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = fmt.Fprint(conn, "HTTP/1.1 299 Mine\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		_ = conn.Close()
		_, _ = w.Write([]byte("too late"))
	})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w, rec = record(w)
		mux.ServeHTTP(w, r)
		done <- struct{}{}
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(srv.Close)

	resp, err := srv.Client().Get(srv.URL + "/copy")
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	<-done
	require.Len(t, body, 100_000)
	require.Equal(t, 200, rec.Status())

	resp, err = srv.Client().Get(srv.URL + "/hijack")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	<-done
	require.Equal(t, 299, resp.StatusCode)
	require.True(t, rec.Wrote())
	require.True(t, rec.Wrote())
	require.Zero(t, rec.Status())
}

// Not parallel: it counts allocations.
func TestRecorder_Allocations(t *testing.T) {
	inner := writers(httptest.NewRecorder())["FHR"]
	var w http.ResponseWriter
	require.InDelta(t, 1, testing.AllocsPerRun(1000, func() { w, _ = record(inner) }), 0)
	var rec reject.Recorder
	o := on(func(int) {})
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		w = rec.Wrap(inner)
		rec.Observe(o)
	}))
	require.Equal(t, "FHR", capabilities(w))
}

func TestMarkRejected_AfterHeader(t *testing.T) {
	t.Parallel()
	var rec reject.Recorder
	w := rec.Wrap(httptest.NewRecorder())
	w.WriteHeader(http.StatusOK)
	require.False(t, reject.Mark(w, func() error { return core.ErrRejected }))
	require.NoError(t, rec.Rejected(), "the handler was called")
}

func record(w http.ResponseWriter) (http.ResponseWriter, *reject.Recorder) {
	rec := new(reject.Recorder)
	return rec.Wrap(w), rec
}

func get() *http.Request { return httptest.NewRequest(http.MethodGet, "/", http.NoBody) }

// logging is a writer with Unwrap and nothing else.
type logging struct{ http.ResponseWriter }

func (l logging) Unwrap() http.ResponseWriter { return l.ResponseWriter }

// Over a real connection: what OnHeader changes in the header is what the client
// gets, however the handler sends it, and only the handler that sends nothing goes
// without.
func TestRecorder_OnHeaderChangesHeader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		status  int
		told    bool
		hints   int
	}{
		"WriteHeader":    {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, 404, true, 0},
		"Write":          {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(long)) }, 200, true, 0},
		"empty Write":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil) }, 200, true, 0},
		"WriteString":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, long) }, 200, true, 0},
		"short ReadFrom": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, onlyReader{strings.NewReader("x")}) }, 200, true, 0},
		"long ReadFrom":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, onlyReader{strings.NewReader(long)}) }, 200, true, 0},
		"Flush":          {func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, 200, true, 0},
		"controller":     {func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }, 200, true, 0},
		"304":            {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, 304, true, 0},
		"204, then a body": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			_, _ = io.WriteString(w, "x")
		}, 204, true, 0},
		"rejected":          {func(w http.ResponseWriter, r *http.Request) { server.Reject(w, r, server.Rejection{Status: 429}) }, 429, true, 0},
		"hints, then final": {func(w http.ResponseWriter, _ *http.Request) { hint(w); hint(w); w.WriteHeader(http.StatusAccepted) }, 202, true, 2},
		"hints, then body":  {func(w http.ResponseWriter, _ *http.Request) { hint(w); _, _ = io.WriteString(w, "x") }, 200, true, 1},
		"hints, then Flush": {func(w http.ResponseWriter, _ *http.Request) { hint(w); w.(http.Flusher).Flush() }, 200, true, 1},
		"hints only":        {func(w http.ResponseWriter, _ *http.Request) { hint(w) }, 200, false, 1},
		"content": {func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "x.txt", time.Time{}, strings.NewReader(long))
		}, 200, true, 0},
		"nothing": {func(http.ResponseWriter, *http.Request) {}, 200, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				outer, outerRec := record(w)
				outerRec.Observe(on(func(int) { outer.Header()["Left"] = append([]string{"outer"}, outer.Header()["Left"]...) }))
				inner, innerRec := record(outer)
				inner.Header().Set("Left", "before")
				innerRec.Observe(on(func(status int) {
					calls++
					require.Equal(t, tt.status, status)
					inner.Header().Set("Left", "inner")
				}))
				tt.handler(inner, r)
			}))
			t.Cleanup(srv.Close)
			hints := 0
			r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
					hints++
					require.Equal(t, "before", h.Get("Left"), "hints are sent without a call")
					return nil
				},
			}), http.MethodGet, srv.URL, http.NoBody)
			require.NoError(t, err)
			resp, err := srv.Client().Do(r)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, tt.status, resp.StatusCode)
			require.Equal(t, tt.hints, hints)
			if tt.told {
				require.Equal(t, []string{"outer", "inner"}, resp.Header["Left"], "the innermost first")
				require.Equal(t, 1, calls)
			} else {
				require.Equal(t, []string{"before"}, resp.Header["Left"])
				require.Zero(t, calls)
			}
		})
	}
}

type onlyReader struct{ io.Reader } // hides WriteTo

func hint(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }

// A limiter gives back in OnHeader what a request took that is refused further in,
// so the mark has to be there by then, on every Recorder, however it was refused.
func TestRecorder_MarkBeforeOnHeader(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(w http.ResponseWriter, r *http.Request){
		"Reject": func(w http.ResponseWriter, r *http.Request) { server.Reject(w, r, server.Rejection{}) },
		"text": func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Accept", "text/plain")
			server.Reject(w, r, server.Rejection{})
		},
		"HEAD": func(w http.ResponseWriter, r *http.Request) {
			r.Method = http.MethodHead
			server.Reject(w, r, server.Rejection{})
		},
		"by itself": func(w http.ResponseWriter, _ *http.Request) {
			reject.Mark(w, func() error { return core.ErrRejected })
			_, _ = w.Write(nil)
		},
		"foreign writer": func(w http.ResponseWriter, r *http.Request) { server.Reject(logging{w}, r, server.Rejection{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w1, outer := record(httptest.NewRecorder())
			w2, inner := record(logging{w1})
			var seen []string
			for name, rec := range map[string]*reject.Recorder{"outer": outer, "inner": inner} {
				rec.Observe(on(func(int) {
					require.ErrorIs(t, inner.Rejected(), core.ErrRejected)
					require.ErrorIs(t, outer.Rejected(), core.ErrRejected)
					seen = append(seen, name)
				}))
			}
			refuse(w2, get())
			require.Equal(t, []string{"inner", "outer"}, seen)
		})
	}
	w, rec := record(httptest.NewRecorder())
	told := false
	rec.Observe(on(func(int) { require.NoError(t, rec.Rejected()); told = true }))
	server.Reject(w, get(), server.Rejection{Err: io.EOF})
	require.True(t, told)
}

// strict counts the final headers, and can flush and hijack.
type strict struct {
	*httptest.ResponseRecorder
	headers int
}

func (s *strict) WriteHeader(status int) {
	s.headers++
	s.ResponseRecorder.WriteHeader(status)
}

func (s *strict) Flush() { s.WriteHeader(http.StatusOK) }

func (s *strict) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

func TestRecorder_MethodsBehindUnwrap(t *testing.T) {
	t.Parallel()
	inner := &strict{ResponseRecorder: httptest.NewRecorder()}
	w, rec := record(logging{inner})
	require.Equal(t, "FH-", capabilities(w))
	require.NoError(t, http.NewResponseController(w).Flush())
	require.Equal(t, 200, rec.Status())
	server.Reject(w, get(), server.Rejection{})
	require.Equal(t, 1, inner.headers, "superfluous")
	require.NoError(t, rec.Rejected())

	w, rec = record(logging{logging{inner}})
	_, _, err := http.NewResponseController(w).Hijack()
	require.NoError(t, err)
	require.Zero(t, rec.Status())

	w, _ = record(logging{bare{inner}})
	require.Equal(t, "---", capabilities(w), "bare ends the way down")
	require.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrNotSupported)
}

// It is told before the client can know, and before a long copy is over.
func TestRecorder_OnHeaderBeforeDownload(t *testing.T) {
	t.Parallel()
	inner := httptest.NewRecorder()
	w, rec := record(writers(inner)["FHR"])
	told := -1
	rec.Observe(on(func(int) {
		require.Zero(t, inner.Body.Len())
		told = 0
	}))
	text := strings.Repeat("0123456789", 500)
	n, err := w.(io.ReaderFrom).ReadFrom(io.MultiReader(strings.NewReader(text), readFunc(func([]byte) (int, error) {
		require.Zero(t, told, "the copy is not over")
		return 0, io.EOF
	})))
	require.NoError(t, err)
	require.EqualValues(t, len(text), n)
	require.Equal(t, text, inner.Body.String())
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }
