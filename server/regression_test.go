package server_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/server"
)

// logging is what a middleware that logs the status wraps a writer with.
type logging struct{ http.ResponseWriter }

func (l logging) Unwrap() http.ResponseWriter { return l.ResponseWriter }

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

func TestRecorder_MissedTheFlushOfAWriterBehindUnwrap(t *testing.T) {
	t.Parallel()
	inner := &strict{ResponseRecorder: httptest.NewRecorder()}
	w, rec := record(logging{inner})
	require.Equal(t, "FH--", capabilities(w))
	require.NoError(t, http.NewResponseController(w).Flush())
	require.Equal(t, 200, rec.Status())
	server.Reject(w, get("/"), server.Rejection{})
	require.Equal(t, 1, inner.headers, "superfluous")
	require.NoError(t, rec.Rejected())

	w, rec = record(logging{logging{inner}})
	_, _, err := http.NewResponseController(w).Hijack()
	require.NoError(t, err)
	require.True(t, rec.Hijacked())

	w, _ = record(logging{bare{inner}})
	require.Equal(t, "----", capabilities(w), "bare ends the way down")
	require.ErrorIs(t, http.NewResponseController(w).Flush(), http.ErrNotSupported)
}

func TestRecorder_OnHeaderIsToldOnceAndFirst(t *testing.T) {
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
			w, rec := record(writers(httptest.NewRecorder())["FHRP"])
			var got []int
			rec.OnHeader(func(status int) {
				require.Equal(t, status, rec.Status())
				require.Equal(t, status == 0, rec.Hijacked())
				got = append(got, status)
			})
			tt.h(w)
			require.Equal(t, tt.want, got)
		})
	}
}

// It is told before the client can know, and before a long copy is over.
func TestRecorder_OnHeaderDoesNotWaitForADownload(t *testing.T) {
	t.Parallel()
	inner := httptest.NewRecorder()
	w, rec := record(writers(inner)["--R-"])
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
	require.EqualValues(t, len(text), rec.Bytes())
	require.Equal(t, text, inner.Body.String())
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestRecorder_OnHeaderSeesTheMarkOfARejection(t *testing.T) {
	t.Parallel()
	w, rec := record(httptest.NewRecorder())
	var rejected error
	rec.OnHeader(func(int) { rejected = rec.Rejected() })
	server.Reject(w, get("/"), server.Rejection{})
	require.Equal(t, core.ErrRejected, rejected)
}

func TestRecorder_InvalidStatusIsNotSent(t *testing.T) {
	t.Parallel()
	w, rec := record(httptest.NewRecorder())
	rec.OnHeader(func(status int) { t.Error(status) })
	require.Panics(t, func() { w.WriteHeader(1000) })
	require.False(t, rec.Wrote())
}

func TestReject_KeptTheFieldsOfAnotherContent(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	for _, field := range []string{"Content-Encoding", "ETag", "Last-Modified", "Content-Length", "X-Kept"} {
		w.Header().Set(field, "gzip")
	}
	server.Reject(w, get("/"), server.Rejection{})
	require.Equal(t, http.Header{"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"}, "X-Kept": {"gzip"}}, w.Header())
}

func TestReject_Unmarked(t *testing.T) {
	t.Parallel()
	inner := httptest.NewRecorder()
	w, rec := record(inner)
	server.Reject(w, get("/"), server.Rejection{Unmarked: true})
	require.Equal(t, 503, inner.Code)
	require.NoError(t, rec.Rejected())
	body := bytes.Clone(inner.Body.Bytes())
	server.Reject(w, get("/"), server.Rejection{Unmarked: true})
	require.Equal(t, body, inner.Body.Bytes(), "once is enough")
}
