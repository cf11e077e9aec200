package timeout_test

import (
	"bufio"
	"errors"
	"github.com/gresil/gresil/internal/recorder"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
)

// A handler that takes over the connection can send Header itself, as a ReverseProxy does.
func TestTheHeaderAfterAHijackIsThatWithoutATimeout(t *testing.T) {
	t.Parallel()
	limit := core.Must(timeout.NewServer(timeout.ServerConfig{}))
	for name, around := range map[string]func(http.Handler) http.Handler{
		"no timeout": func(h http.Handler) http.Handler { return h },
		"timeout":    limit.Handler,
		"two timeouts": func(h http.Handler) http.Handler {
			return limit.Handler(core.Must(timeout.NewServer(timeout.ServerConfig{})).Handler(h))
		},
	} {
		w := hijackable{httptest.NewRecorder()}
		rec := new(recorder.Recorder)
		outer := rec.Wrap(w)
		outer.Header().Set("Changed", "before")
		outer.Header().Set("Removed", "before")
		rec.OnHeader(func(int) {
			outer.Header().Set("Changed", "after")
			outer.Header().Set("New", "after")
			outer.Header().Del("Removed")
			outer.Header().Del("Removed-Of-Handler")
		})
		around(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Handler", "h")
			w.Header().Set("Removed-Of-Handler", "h")
			_, _, err := http.NewResponseController(w).Hijack()
			require.NoError(t, err)
			require.Equal(t, http.Header{"Changed": {"after"}, "New": {"after"}, "Handler": {"h"}}, w.Header(), name)
		})).ServeHTTP(outer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	}
}

func TestARejectionOfAHandlerThatTakesOverTheConnectionIsSeenFurtherOut(t *testing.T) {
	t.Parallel()
	rec := new(recorder.Recorder)
	outer := rec.Wrap(hijackable{httptest.NewRecorder()})
	var seen error
	rec.OnHeader(func(int) { seen = rec.Rejected() })
	core.Must(timeout.NewServer(timeout.ServerConfig{})).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		require.True(t, recorder.MarkRejected(w, core.ErrRejected))
		_, _, err := http.NewResponseController(w).Hijack()
		require.NoError(t, err)
	})).ServeHTTP(outer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	require.Equal(t, core.ErrRejected, seen)
}

type notHijackable struct{ *httptest.ResponseRecorder }

func (notHijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, errors.New("no") }

func TestAHijackThatFailsLeavesTheHeaderOfTheOuterWriter(t *testing.T) {
	t.Parallel()
	limit := core.Must(timeout.NewServer(timeout.ServerConfig{}))
	w := notHijackable{httptest.NewRecorder()}
	w.Header().Set("Outer", "o")
	require.PanicsWithValue(t, "handler", func() {
		limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Handler", "h")
			_, _, err := http.NewResponseController(w).Hijack()
			require.Error(t, err)
			require.Equal(t, http.Header{"Outer": {"o"}, "Handler": {"h"}}, w.Header())
			panic("handler")
		})).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	})
	require.Equal(t, http.Header{"Outer": {"o"}}, w.Header())
}
