package timeout_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"github.com/gresil/gresil/internal/recorder"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/plugins/timeout"
	"github.com/gresil/gresil/server"
)

func TestStream(t *testing.T) {
	t.Parallel()
	flush := func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() }
	overflow := func(w http.ResponseWriter) error { _, err := io.WriteString(w, strings.Repeat("x", 101)); return err }
	for _, tt := range []struct {
		name  string
		cut   bool
		begin func(http.ResponseWriter) error
	}{
		{"a flush begins the response, and lifts the limit", false, flush},
		{"so does a full buffer", false, overflow},
		{"with CutBody a response that was flushed is broken off", true, flush},
		{"so is one that filled the buffer", true, overflow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var handlerErr error
				deadlines := 0
				plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: 2500 * time.Millisecond, CutBody: tt.cut, MaxBuffer: 100}))
				httpClient, _ := serve(t, plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("X-Handler", "sent")
					w.WriteHeader(http.StatusAccepted)
					if handlerErr = tt.begin(w); handlerErr != nil {
						return
					}
					if _, ok := r.Context().Deadline(); ok {
						deadlines++
					}
					for range 5 {
						select {
						case <-time.After(time.Second):
						case <-r.Context().Done():
							time.Sleep(time.Millisecond)
						}
						if _, handlerErr = io.WriteString(w, "tick"); handlerErr != nil {
							return
						}
						if handlerErr = flush(w); handlerErr != nil {
							return
						}
					}
				})))
				start := time.Now()
				resp, err := httpClient.Get("http://example.test/")
				require.NoError(t, err)
				if strings.Contains(tt.name, "flush") { // else net/http has a small buffer of its own
					require.Zero(t, time.Since(start), "it begins at once")
				}
				require.Equal(t, http.StatusAccepted, resp.StatusCode)
				require.Equal(t, "sent", resp.Header.Get("X-Handler"))
				text, err := io.ReadAll(resp.Body)
				time.Sleep(time.Second)
				synctest.Wait()
				if tt.cut {
					require.ErrorIs(t, err, io.ErrUnexpectedEOF, "the client sees that it is not whole")
					require.Equal(t, 2, strings.Count(string(text), "tick"))
					require.Equal(t, http.ErrHandlerTimeout, handlerErr)
					require.Equal(t, 1, deadlines)
					require.Equal(t, timeout.Stats{TimedOut: 1}, plugin.Stats().Stats)
				} else {
					require.NoError(t, err)
					require.Equal(t, 5, strings.Count(string(text), "tick"))
					require.NoError(t, handlerErr)
					require.Zero(t, deadlines, "the deadline is gone")
					require.Equal(t, timeout.Stats{Succeeded: 1}, plugin.Stats().Stats)
				}
			})
		})
	}
}

// With CutBody a client that does not read does not hold up the limit.
func TestCutBodyFreesAWriteThatASlowClientHoldsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ended time.Duration
		start := time.Now()
		plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Second, CutBody: true}))
		_, dial := serve(t, plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(w, strings.Repeat("x", 100_000)); err != nil {
					ended = time.Since(start)
					return
				}
			}
		})))
		conn, err := dial(t.Context(), "", "")
		require.NoError(t, err)
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: example.test\r\n\r\n")
		require.NoError(t, err)
		time.Sleep(time.Minute) // without reading a byte
		synctest.Wait()
		require.Equal(t, time.Second, ended)
		require.Equal(t, timeout.Stats{TimedOut: 1}, plugin.Stats().Stats)
		require.NoError(t, conn.Close())
	})
}

// net/http, before it answers, reads what is left of a request's body, and would
// wait for a handler that is reading it.
func TestSlowUploadIsAnsweredAtTheLimit(t *testing.T) {
	t.Parallel()
	for name, outer := range map[string]func(http.Handler) http.Handler{
		"bare": func(h http.Handler) http.Handler { return h },
		"under a middleware that hides the connection": func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var readErr error
				plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Second}))
				_, dial := serve(t, outer(plugin.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					_, readErr = io.ReadAll(r.Body)
				}))))
				conn, err := dial(t.Context(), "", "")
				require.NoError(t, err)
				start := time.Now()
				_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: example.test\r\nContent-Length: 1000\r\n\r\nhalf")
				require.NoError(t, err)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(t, err)
				require.Equal(t, time.Second, time.Since(start))
				require.Equal(t, 503, resp.StatusCode)
				require.True(t, resp.Close)
				_, err = io.ReadAll(resp.Body)
				require.NoError(t, err)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Error(t, readErr)
				require.Zero(t, plugin.Stats().Abandoned, "the handler is free")
				require.NoError(t, conn.Close())
			})
		})
	}
}

func TestHijackLiftsTheLimit(t *testing.T) {
	t.Parallel()
	for _, cut := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Second, CutBody: cut}))
			_, dial := serve(t, plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				conn, rw, err := w.(http.Hijacker).Hijack()
				require.NoError(t, err)
				defer func() { _ = conn.Close() }()
				_, err = io.WriteString(w, "x")
				require.Equal(t, http.ErrHijacked, err)
				time.Sleep(time.Hour)
				require.NoError(t, r.Context().Err())
				_, _ = rw.WriteString("raw")
				_ = rw.Flush()
			})))
			conn, err := dial(t.Context(), "", "")
			require.NoError(t, err)
			_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: example.test\r\n\r\n")
			require.NoError(t, err)
			text, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.Equal(t, "raw", string(text))
			synctest.Wait()
			require.Equal(t, timeout.Stats{Succeeded: 1}, plugin.Stats().Stats)
		})
	}
}

func TestInformationalStatusGoesOutAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Hour}))
		outer := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Outer", "1")
				next.ServeHTTP(w, r)
			})
		}
		httpClient, _ := serve(t, outer(plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(http.StatusEarlyHints)
			time.Sleep(time.Minute)
			if r.URL.Path == "/slow" {
				<-r.Context().Done()
			}
			w.Header().Del("Link")
			_, _ = io.WriteString(w, "fine")
		}))))
		var hint string
		var at time.Duration
		start := time.Now()
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			require.Equal(t, 103, code)
			hint, at = header.Get("Link"), time.Since(start)
			return nil
		}})
		resp, err := get(t, ctx, httpClient.Transport)
		require.NoError(t, err)
		require.Equal(t, "</style.css>", hint)
		require.Zero(t, at)
		require.Equal(t, 200, resp.StatusCode)
		require.Empty(t, resp.Header.Get("Link"))
		require.Equal(t, "1", resp.Header.Get("X-Outer"))
		require.NoError(t, resp.Body.Close())

		resp, err = httpClient.Get("http://example.test/slow")
		require.NoError(t, err)
		require.Equal(t, 503, resp.StatusCode)
		require.Empty(t, resp.Header.Get("Link"), "a hint of the handler is not of the answer")
		require.Equal(t, "1", resp.Header.Get("X-Outer"))
		require.NoError(t, resp.Body.Close())
	})
}

func TestTrailers(t *testing.T) {
	t.Parallel()
	for _, begins := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			plugin := core.Must(timeout.NewServer(timeout.ServerConfig{}))
			httpClient, _ := serve(t, plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Trailer", "X-Sum, X-Other")
				_, _ = io.WriteString(w, "fine")
				if begins {
					w.(http.Flusher).Flush()
				}
				w.Header().Set("X-Sum", "42")
				w.Header().Set(http.TrailerPrefix+"X-Late", "yes")
				w.Header().Set("X-Header", "not a trailer")
			})))
			resp, err := httpClient.Get("http://example.test/")
			require.NoError(t, err)
			_, err = io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "42", resp.Trailer.Get("X-Sum"))
			require.Equal(t, "yes", resp.Trailer.Get("X-Late"))
			require.Empty(t, resp.Header.Get("X-Header"))
		})
	}
}

func TestWriterHasWhatTheOneBelowHas(t *testing.T) {
	t.Parallel()
	type plain struct{ http.ResponseWriter }
	rec := httptest.NewRecorder()
	for _, tt := range []struct {
		w               http.ResponseWriter
		flusher, hijack bool
	}{
		{plain{rec}, false, false},
		{rec, true, false},
		{struct {
			plain
			http.Hijacker
		}{plain{rec}, nil}, false, true},
		{struct {
			plain
			http.Flusher
			http.Hijacker
		}{plain{rec}, rec, nil}, true, true},
	} {
		core.Must(timeout.NewServer(timeout.ServerConfig{})).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, flusher := w.(http.Flusher)
			_, hijacker := w.(http.Hijacker)
			require.Equal(t, tt.flusher, flusher)
			require.Equal(t, tt.hijack, hijacker)
			require.Equal(t, tt.flusher, !errors.Is(http.NewResponseController(w).Flush(), http.ErrNotSupported))
		})).ServeHTTP(tt.w, httptest.NewRequest(http.MethodGet, "/", nil))
	}
}

func TestControllerReachesTheConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		httpClient, _ := serve(t, core.Must(timeout.NewServer(timeout.ServerConfig{})).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c := http.NewResponseController(w)
			require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Hour)))
			require.NoError(t, c.SetWriteDeadline(time.Now().Add(time.Hour)))
			require.NoError(t, c.EnableFullDuplex())
		})))
		resp, err := httpClient.Get("http://example.test/")
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode)
	})
}

// net/http removes the files of the form that it knows, which is not that of a
// request with another context.
func TestMultipartFilesAreRemoved(t *testing.T) {
	t.Parallel()
	var form bytes.Buffer
	m := multipart.NewWriter(&form)
	part, err := m.CreateFormFile("file", "big.txt")
	require.NoError(t, err)
	_, _ = io.WriteString(part, strings.Repeat("x", 100_000))
	require.NoError(t, m.Close())
	var name string
	r := httptest.NewRequest(http.MethodPost, "/", &form)
	r.Header.Set("Content-Type", m.FormDataContentType())
	core.Must(timeout.NewServer(timeout.ServerConfig{})).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		require.NoError(t, r.ParseMultipartForm(1))
		f, err := r.MultipartForm.File["file"][0].Open()
		require.NoError(t, err)
		name = f.(*os.File).Name()
		require.NoError(t, f.Close())
	})).ServeHTTP(httptest.NewRecorder(), r)
	require.NotEmpty(t, name)
	_, err = os.Stat(name)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A stream of events is what a flush is for; it lasts until the client leaves.
func TestEventStreamOutlivesTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left := false
		plugin := core.Must(timeout.NewServer(timeout.ServerConfig{Limit: time.Second}))
		httpClient, _ := serve(t, plugin.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for {
				_, _ = io.WriteString(w, "data: tick\n\n")
				w.(http.Flusher).Flush()
				select {
				case <-time.After(time.Minute):
				case <-r.Context().Done():
					left = errors.Is(r.Context().Err(), context.Canceled)
					return
				}
			}
		})))
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := get(t, ctx, httpClient.Transport)
		require.NoError(t, err)
		lines := bufio.NewScanner(resp.Body)
		for range 10 {
			require.True(t, lines.Scan())
		}
		cancel()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.True(t, left)
	})
}

// The mark is passed on before the response begins, and not only when the handler has returned.
func TestARejectionFurtherInOfAResponseThatBeginsIsSeenFurtherOut(t *testing.T) {
	t.Parallel()
	rejected := fmt.Errorf("limited: %w", core.ErrRejected)
	for name, tt := range map[string]struct {
		cfg   timeout.ServerConfig
		flush bool
	}{
		"flushed":      {timeout.ServerConfig{}, true},
		"small buffer": {timeout.ServerConfig{MaxBuffer: 1}, false},
	} {
		rec := new(recorder.Recorder)
		outer := rec.Wrap(httptest.NewRecorder())
		var seen error
		rec.OnHeader(func(int) { seen = rec.Rejected() })
		core.Must(timeout.NewServer(tt.cfg)).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			server.Reject(w, r, server.Rejection{Err: rejected})
			if tt.flush {
				require.NoError(t, http.NewResponseController(w).Flush())
			}
		})).ServeHTTP(outer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		require.Equal(t, rejected, seen, name)
		require.Equal(t, http.StatusServiceUnavailable, rec.Status(), name)
	}
}
