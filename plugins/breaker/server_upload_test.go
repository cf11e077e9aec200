package breaker_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/breaker"
)

// outcomeOf sends body through h, and returns the outcome.
func outcomeOf(t *testing.T, handler http.Handler, around func(http.Handler) http.Handler, body io.Reader) core.Outcome {
	t.Helper()
	var got []core.Outcome
	p := newServer(t, breaker.ServerConfig{Registry: recorded(func(o core.Outcome, _ time.Duration) { got = append(got, o) })})
	around(p.Handler(handler)).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body))
	require.Len(t, got, 1)
	return got[0]
}

func as(h http.Handler) http.Handler { return h }

func atMost10(h http.Handler) http.Handler { return http.MaxBytesHandler(h, 10) }

// A reverse proxy answers 502 if it cannot read the upload of its client.
func TestAnUploadThatCannotBeReadIsNoFailure(t *testing.T) {
	t.Parallel()
	reads := roundTrip(func(r *http.Request) (*http.Response, error) {
		defer func() { _ = r.Body.Close() }()
		_, err := io.Copy(io.Discard, r.Body)
		return respond(r, http.StatusOK), err
	})
	refuses := roundTrip(func(r *http.Request) (*http.Response, error) {
		_ = r.Body.Close()
		_, _ = r.Body.Read(make([]byte, 1))
		return nil, errors.New("refused")
	})
	proxy := func(rt http.RoundTripper) http.Handler {
		p := httputil.NewSingleHostReverseProxy(core.Must(url.Parse("http://origin.test")))
		p.Transport, p.ErrorHandler = rt, func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
		return p
	}
	read := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(status)
		}
	}
	long, short := strings.Repeat("x", 100), "x"
	for _, c := range []struct {
		name    string
		handler http.Handler
		around  func(http.Handler) http.Handler
		body    io.Reader
		want    core.Outcome
	}{
		{"an oversize upload", proxy(reads), atMost10, strings.NewReader(long), core.Ignored},
		{"a broken upload", proxy(reads), as, io.NopCloser(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(long)))), core.Ignored},
		{"a broken upload, 500", read(500), as, iotest.ErrReader(io.ErrUnexpectedEOF), core.Ignored},
		{"a broken upload, 413", read(413), as, iotest.ErrReader(io.ErrUnexpectedEOF), core.Success},
		{"a short upload", proxy(reads), atMost10, strings.NewReader(short), core.Success},
		{"a short upload, 500", read(500), atMost10, strings.NewReader(short), core.Failure},
		{"not read, 500", status(500), atMost10, strings.NewReader(long), core.Failure},
		{"closed and then read, 500", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = r.Body.Close()
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusInternalServerError)
		}), as, &closedBody{Reader: strings.NewReader(long)}, core.Failure},
		{"an origin that refuses", proxy(refuses), as, &closedBody{Reader: strings.NewReader(long)}, core.Failure},
	} {
		require.Equal(t, c.want, outcomeOf(t, c.handler, c.around, c.body), c.name)
	}
}

// closedBody is a body that cannot be read after Close.
type closedBody struct {
	io.Reader
	closed bool
}

func (b *closedBody) Read(p []byte) (int, error) {
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.Reader.Read(p)
}

func (b *closedBody) Close() error { b.closed = true; return nil }

func TestTheFormOfAnUploadIsOnTheOriginalRequest(t *testing.T) {
	t.Parallel()
	p := newServer(t, breaker.ServerConfig{})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--b--\r\n"))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	p.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		require.NoError(t, r.ParseMultipartForm(100))
	})).ServeHTTP(httptest.NewRecorder(), r)
	require.Equal(t, []string{"x"}, r.MultipartForm.Value["a"], "net/http removes its files")
}
