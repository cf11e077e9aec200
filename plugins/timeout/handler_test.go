package timeout_test

import (
	"github.com/gresil/gresil/internal/recorder"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
)

// net/http does not read the rest of the body after the answer.
func TestAConnectionWithABodyThatIsNotReadIsClosed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		major int
		body  io.Reader
		want  string
	}{{1, strings.NewReader("x"), "close"}, {1, http.NoBody, ""}, {2, strings.NewReader("x"), ""}} {
		synctest.Test(t, func(t *testing.T) {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", tt.body)
			r.ProtoMajor = tt.major
			core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Second})).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
			})).ServeHTTP(w, r)
			require.Equal(t, 503, w.Code)
			require.Equal(t, tt.want, w.Header().Get("Connection"), "HTTP/%d, %T", tt.major, tt.body)
		})
	}
}

func TestARejectionFurtherInWithoutAResponseIsSeenFurtherOut(t *testing.T) {
	t.Parallel()
	rec := new(recorder.Recorder)
	w := rec.Wrap(httptest.NewRecorder())
	core.Must(timeout.NewServer(timeout.ServerConfig{})).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		require.True(t, recorder.MarkRejected(w, core.ErrRejected))
	})).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	require.Equal(t, core.ErrRejected, rec.Rejected())
}
