package recorder_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/recorder"
	"github.com/gresil/gresil/server"
)

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
				outerRec.OnHeader(func(int) { outer.Header()["Left"] = append([]string{"outer"}, outer.Header()["Left"]...) })
				inner, innerRec := record(outer)
				inner.Header().Set("Left", "before")
				innerRec.OnHeader(func(status int) {
					calls++
					require.Equal(t, tt.status, status)
					inner.Header().Set("Left", "inner")
				})
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
			recorder.MarkRejected(w, core.ErrRejected)
			_, _ = w.Write(nil)
		},
		"foreign writer": func(w http.ResponseWriter, r *http.Request) { server.Reject(logging{w}, r, server.Rejection{}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w1, outer := record(httptest.NewRecorder())
			w2, inner := record(logging{w1})
			var seen []string
			for name, rec := range map[string]*recorder.Recorder{"outer": outer, "inner": inner} {
				rec.OnHeader(func(int) {
					require.ErrorIs(t, inner.Rejected(), core.ErrRejected)
					require.ErrorIs(t, outer.Rejected(), core.ErrRejected)
					seen = append(seen, name)
				})
			}
			refuse(w2, get())
			require.Equal(t, []string{"inner", "outer"}, seen)
		})
	}
	w, rec := record(httptest.NewRecorder())
	told := false
	rec.OnHeader(func(int) { require.NoError(t, rec.Rejected()); told = true })
	server.Reject(w, get(), server.Rejection{Err: io.EOF})
	require.True(t, told)
}

type observer struct{ statuses []int }

func (o *observer) OnHeader(status int) { o.statuses = append(o.statuses, status) }

func TestRecorder_LastObserver(t *testing.T) {
	t.Parallel()
	forbidden := func(status int) { t.Error(status) }
	var o observer
	w, rec := record(httptest.NewRecorder())
	rec.OnHeader(forbidden)
	rec.Observe(&o)
	w.WriteHeader(http.StatusTeapot)
	w.WriteHeader(http.StatusOK)
	require.Equal(t, []int{418}, o.statuses)

	w, rec = record(httptest.NewRecorder())
	rec.Observe(&o)
	rec.OnHeader(nil)
	w.WriteHeader(http.StatusOK)
	rec.OnHeader(forbidden) // too late
	_, _ = w.Write(nil)
	require.Equal(t, []int{418}, o.statuses)
}

// Not parallel: it counts allocations.
func TestRecorder_ObserveAllocations(t *testing.T) {
	inner := silent{http.Header{}}
	var rec recorder.Recorder
	const runs = 1000
	o := &observer{statuses: make([]int, 0, runs+1)}
	require.Zero(t, testing.AllocsPerRun(runs, func() {
		w := rec.Wrap(inner)
		rec.Observe(o)
		w.WriteHeader(http.StatusOK)
	}))
	require.Len(t, o.statuses, runs+1)
}

// silent is a writer that allocates nothing.
type silent struct{ header http.Header }

func (s silent) Header() http.Header         { return s.header }
func (s silent) Write(p []byte) (int, error) { return len(p), nil }
func (s silent) WriteHeader(int)             {}

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
	require.Equal(t, "FH--", capabilities(w))
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
	require.Equal(t, "----", capabilities(w), "bare ends the way down")
	require.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrNotSupported)
}

func TestRecorder_OnHeader(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		h    func(w http.ResponseWriter)
		want []int
	}{
		{"nothing", func(http.ResponseWriter) {}, nil},
		{"header", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNotFound)
			w.WriteHeader(http.StatusInternalServerError)
		}, []int{404}},
		{"body", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "a"); _, _ = w.Write([]byte("b")) }, []int{200}},
		{"hints", func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, nil},
		{"hints and body", func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints); _, _ = w.Write(nil) }, []int{200}},
		{"flush", func(w http.ResponseWriter) { w.(http.Flusher).Flush(); w.WriteHeader(http.StatusInternalServerError) }, []int{200}},
		{"upgrade", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusSwitchingProtocols)
			_, _, _ = w.(http.Hijacker).Hijack()
		}, []int{101}},
		{"hijack", func(w http.ResponseWriter) {
			_, _, _ = w.(http.Hijacker).Hijack()
			w.WriteHeader(http.StatusInternalServerError)
		}, []int{0}},
		{"empty copy", func(w http.ResponseWriter) { _, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("")) }, nil},
		{"copy", func(w http.ResponseWriter) { _, _ = w.(io.ReaderFrom).ReadFrom(strings.NewReader("x")) }, []int{200}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, rec := record(writers(httptest.NewRecorder())["FHR-"])
			var got []int
			rec.OnHeader(func(status int) {
				require.Equal(t, status, rec.Status())
				got = append(got, status)
			})
			tt.h(w)
			require.Equal(t, tt.want, got)
		})
	}
}

// It is told before the client can know, and before a long copy is over.
func TestRecorder_OnHeaderBeforeDownload(t *testing.T) {
	t.Parallel()
	inner := httptest.NewRecorder()
	w, rec := record(writers(inner)["FHR-"])
	told := -1
	rec.OnHeader(func(int) {
		require.Zero(t, inner.Body.Len())
		told = 0
	})
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

func TestRecorder_OnHeaderAfterMark(t *testing.T) {
	t.Parallel()
	w, rec := record(httptest.NewRecorder())
	var rejected error
	rec.OnHeader(func(int) { rejected = rec.Rejected() })
	server.Reject(w, get(), server.Rejection{})
	require.Equal(t, core.ErrRejected, rejected)
}

func TestRecorder_InvalidStatus(t *testing.T) {
	t.Parallel()
	w, rec := record(httptest.NewRecorder())
	rec.OnHeader(func(status int) { t.Error(status) })
	require.Panics(t, func() { w.WriteHeader(1000) })
	require.False(t, rec.Wrote())
}
