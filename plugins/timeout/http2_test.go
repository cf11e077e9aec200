package timeout_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/resiltest"
)

func TestHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plain := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Second}))
		cutting := core.Must(timeout.NewServer(timeout.ServerConfig{Name: "cut", Limit: time.Second, CutBody: true}))
		mux := http.NewServeMux()
		var readErr error
		mux.Handle("/upload", plain.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, readErr = io.ReadAll(r.Body) })))
		mux.Handle("/stream", cutting.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "begun")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})))
		mux.Handle("/fine", plain.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") })))

		s := resiltest.Serve(t, resiltest.NewNetwork().Listen(""), mux)
		tr := s.Transport()
		tr.Protocols = resiltest.HTTP2()

		start := time.Now()
		body, upload := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.test/upload", body)
		require.NoError(t, err)
		go func() { _, _ = io.WriteString(upload, "half") }()
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, "HTTP/2.0", resp.Proto)
		require.Equal(t, 503, resp.StatusCode)
		require.Equal(t, time.Second, time.Since(start))
		_, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		_ = upload.Close()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Error(t, readErr)
		require.Zero(t, plain.Stats().Abandoned)

		req, err = http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.test/stream", nil)
		require.NoError(t, err)
		resp, err = tr.RoundTrip(req)
		require.NoError(t, err)
		text, err := io.ReadAll(resp.Body)
		require.Error(t, err, "the stream is reset")
		require.Equal(t, "begun", string(text))

		req, err = http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.test/fine", nil)
		require.NoError(t, err)
		resp, err = tr.RoundTrip(req)
		require.NoError(t, err)
		text, err = io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, "fine", string(text))
		_, conns := s.Conns()
		require.Equal(t, 1, conns, "one connection does for all of it")
	})
}
