package reject_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/reject"
)

// connection is the writer of a connection of HTTP/1.
type connection struct {
	*httptest.ResponseRecorder
	deadlines int
}

func (c *connection) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

func (c *connection) SetReadDeadline(time.Time) error { c.deadlines++; return nil }

// A connection that OnRejected has taken over is its own: no deadline of ours is left there.
func TestWith_UnreadBody(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		onRejected func(w http.ResponseWriter)
		ours       bool
	}{
		"answer": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) }, true},
		"hijack": {func(w http.ResponseWriter) { _, _, _ = http.NewResponseController(w).Hijack() }, false},
	} {
		w := &connection{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("order"))
		ctx, note := reject.Watch(r.Context())
		reject.With(w, r.WithContext(ctx), core.ErrRejected, -1,
			func(w http.ResponseWriter, _ *http.Request, _ error) { tt.onRejected(w) }, func(http.ResponseWriter, *http.Request, error) {})
		require.Equal(t, tt.ours, w.deadlines > 0, name)
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"), name)
		require.Equal(t, map[bool]int{true: 418}[tt.ours], note.Get().Status, name)
	}
}

// Nothing is added to a response that a Recorder further out has seen begin.
func TestWith_BegunResponse(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	rec := new(reject.Recorder)
	outer, r := rec.Wrap(w), httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	_, _ = outer.Write([]byte("one\n"))
	reject.With(outer, r, core.ErrRejected, -1,
		func(w http.ResponseWriter, _ *http.Request, _ error) { _, _ = w.Write([]byte("two")) },
		func(w http.ResponseWriter, _ *http.Request, _ error) { _, _ = w.Write([]byte("three")) })
	require.Equal(t, "one\n", w.Body.String())
}

func TestSeconds(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]struct {
		seconds int64
		field   string
	}{
		0: {0, "1"}, 1: {1, "1"}, 900 * time.Millisecond: {1, "1"}, time.Second: {1, "1"}, time.Second + 1: {2, "2"},
		59400 * time.Millisecond: {60, "60"}, time.Hour: {3600, "3600"}, 1<<63 - 1: {9223372037, "9223372037"}, -1: {0, ""}, -time.Second: {-1, ""},
	} {
		require.Equal(t, want.seconds, reject.Seconds(d), d)
		w := httptest.NewRecorder()
		reject.Details{}.Body().Send(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody), d)
		require.Equal(t, want.field, w.Header().Get("Retry-After"), d)
	}
}
