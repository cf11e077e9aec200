package recorder_test

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
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/recorder"
)

type (
	bare    struct{ http.ResponseWriter }
	flusher struct{ flushed *int }
	hijack  struct{ err error }
	reader  struct{ w io.Writer }
	pusher  struct{ pushed *[]string }
)

func (f flusher) Flush() { *f.flushed++ }
func (h hijack) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, h.err
}
func (r reader) ReadFrom(src io.Reader) (int64, error) { return io.Copy(r.w, src) }
func (p pusher) Push(target string, _ *http.PushOptions) error {
	*p.pushed = append(*p.pushed, target)
	return nil
}

// writers returns a writer for each combination of the optional interfaces.
func writers(w http.ResponseWriter) map[string]http.ResponseWriter {
	b, f, h, r, p := bare{w}, flusher{new(int)}, hijack{}, reader{w}, pusher{new([]string)}
	return map[string]http.ResponseWriter{
		"----": b,
		"F---": struct {
			bare
			flusher
		}{b, f},
		"-H--": struct {
			bare
			hijack
		}{b, h},
		"FH--": struct {
			bare
			flusher
			hijack
		}{b, f, h},
		"--R-": struct {
			bare
			reader
		}{b, r},
		"F-R-": struct {
			bare
			flusher
			reader
		}{b, f, r},
		"-HR-": struct {
			bare
			hijack
			reader
		}{b, h, r},
		"FHR-": struct {
			bare
			flusher
			hijack
			reader
		}{b, f, h, r},
		"---P": struct {
			bare
			pusher
		}{b, p},
		"F--P": struct {
			bare
			flusher
			pusher
		}{b, f, p},
		"-H-P": struct {
			bare
			hijack
			pusher
		}{b, h, p},
		"FH-P": struct {
			bare
			flusher
			hijack
			pusher
		}{b, f, h, p},
		"--RP": struct {
			bare
			reader
			pusher
		}{b, r, p},
		"F-RP": struct {
			bare
			flusher
			reader
			pusher
		}{b, f, r, p},
		"-HRP": struct {
			bare
			hijack
			reader
			pusher
		}{b, h, r, p},
		"FHRP": struct {
			bare
			flusher
			hijack
			reader
			pusher
		}{b, f, h, r, p},
	}
}

// capabilities names the optional interfaces that w has.
func capabilities(w http.ResponseWriter) string {
	s := []byte("----")
	if _, has := w.(http.Flusher); has {
		s[0] = 'F'
	}
	if _, has := w.(http.Hijacker); has {
		s[1] = 'H'
	}
	if _, has := w.(io.ReaderFrom); has {
		s[2] = 'R'
	}
	if _, has := w.(http.Pusher); has {
		s[3] = 'P'
	}
	return string(s)
}

func TestRecorder_Capabilities(t *testing.T) {
	t.Parallel()
	names := slices.Sorted(maps.Keys(writers(httptest.NewRecorder())))
	require.Len(t, names, 16)
	for _, has := range names {
		want := has[:3] + "-"
		if want != "FHR-" {
			want = has[:2] + "--" // ReaderFrom comes with the other two
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
	for _, tt := range []struct {
		name    string
		handler func(w http.ResponseWriter)
		status  int // sent, or as it would be
		wrote   bool
	}{
		{"nothing", func(http.ResponseWriter) {}, 200, false},
		{"header only", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, 404, true},
		{"first counts", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusCreated)
			w.WriteHeader(http.StatusInternalServerError)
		}, 201, true},
		{"write is 200", func(w http.ResponseWriter) { _, _ = w.Write([]byte("abc")) }, 200, true},
		{"empty write is 200", func(w http.ResponseWriter) { _, _ = w.Write(nil) }, 200, true},
		{"string", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "abcd") }, 200, true},
		{"after the body", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "x")
			w.WriteHeader(http.StatusInternalServerError)
		}, 200, true},
		{"early hints are not final", func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, 200, false},
		{"early hints, then final", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusProcessing)
			w.WriteHeader(http.StatusServiceUnavailable)
		}, 503, true},
		{"switching protocols is final", func(w http.ResponseWriter) { w.WriteHeader(http.StatusSwitchingProtocols) }, 101, true},
		{"flush is 200", func(w http.ResponseWriter) { w.(http.Flusher).Flush() }, 200, true},
		{"flush through a controller", func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, 200, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, rec := record(struct {
				bare
				http.Flusher
			}{bare{httptest.NewRecorder()}, httptest.NewRecorder()})
			tt.handler(w)
			require.Equal(t, tt.status, rec.Status())
			require.Equal(t, tt.wrote, rec.Wrote())
		})
	}
}

func TestRecorder_FailedRead(t *testing.T) {
	t.Parallel()
	inner := httptest.NewRecorder()
	w, rec := record(writers(inner)["FHR-"])
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
	var rec *recorder.Recorder
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
	inner := writers(httptest.NewRecorder())["FHR-"]
	var w http.ResponseWriter
	require.InDelta(t, 1, testing.AllocsPerRun(1000, func() { w, _ = record(inner) }), 0)
	var rec recorder.Recorder
	require.Zero(t, testing.AllocsPerRun(1000, func() { w = rec.Wrap(inner) }))
	require.Equal(t, "FHR-", capabilities(w))
}

func TestMarkRejected_AfterHeader(t *testing.T) {
	t.Parallel()
	var rec recorder.Recorder
	w := rec.Wrap(httptest.NewRecorder())
	w.WriteHeader(http.StatusOK)
	require.False(t, recorder.MarkRejected(w, core.ErrRejected))
	require.NoError(t, rec.Rejected(), "the handler was called")
}

func record(w http.ResponseWriter) (http.ResponseWriter, *recorder.Recorder) {
	rec := new(recorder.Recorder)
	return rec.Wrap(w), rec
}

func get() *http.Request { return httptest.NewRequest(http.MethodGet, "/", http.NoBody) }

// logging is a writer with Unwrap and nothing else.
type logging struct{ http.ResponseWriter }

func (l logging) Unwrap() http.ResponseWriter { return l.ResponseWriter }
