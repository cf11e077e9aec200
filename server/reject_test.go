package server_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/resiltest"
	"github.com/gresil/gresil/server"
)

type waitError struct{ wait time.Duration }

func (e waitError) Error() string             { return "secret of the inside" }
func (e waitError) RetryAfter() time.Duration { return e.wait }

func TestReject_Status(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		rej   server.Rejection
		code  int
		retry string
		body  string
	}{
		{"zero", server.Rejection{}, 503, "", `{"type":"about:blank","title":"Service Unavailable","status":503}`},
		{"429", server.Rejection{Status: 429, RetryAfter: 4200 * time.Millisecond, Detail: "slow down"}, 429, "5", `{"type":"about:blank","title":"Too Many Requests","status":429,"detail":"slow down"}`},
		{"413 has no Retry-After", server.Rejection{Status: 413, RetryAfter: -1}, 413, "", `{"type":"about:blank","title":"Request Entity Too Large","status":413}`},
		{"411", server.Rejection{Status: 411}, 411, "", `{"type":"about:blank","title":"Length Required","status":411}`},
		{"the error asks", server.Rejection{Err: waitError{12 * time.Second}}, 503, "12", `{"type":"about:blank","title":"Service Unavailable","status":503}`},
		{"the error asks for nothing now", server.Rejection{Err: waitError{0}}, 503, "1", `{"type":"about:blank","title":"Service Unavailable","status":503}`},
		{"the error says never", server.Rejection{Err: waitError{-1}}, 503, "", `{"type":"about:blank","title":"Service Unavailable","status":503}`},
		{"the field is stronger", server.Rejection{RetryAfter: time.Second, Err: waitError{time.Hour}}, 503, "1", `{"type":"about:blank","title":"Service Unavailable","status":503}`},
		{
			"everything",
			server.Rejection{
				Status: 429, RetryAfter: time.Nanosecond, Type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
				Title: `"quoted" \ <b>`, Detail: "naïve\n", Policies: []string{`a"b`, "daily"},
			},
			429, "1",
			`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"\"quoted\" \\ <b>","status":429,"detail":"naïve\n","violated-policies":["a\"b","daily"]}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			w.Header().Set("Content-Length", "5")
			w.Header().Set("Retry-After", "999")
			server.Reject(w, get("/"), tt.rej)
			require.Equal(t, tt.code, w.Code)
			require.Equal(t, tt.retry, w.Header().Get("Retry-After"))
			require.Equal(t, tt.retry != "", len(w.Header().Values("Retry-After")) == 1)
			require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			require.Empty(t, w.Header().Values("Content-Length"))
			require.JSONEq(t, tt.body, w.Body.String())
			require.True(t, json.Valid(w.Body.Bytes()))
			require.NotContains(t, w.Body.String(), "secret")
		})
	}
}

func TestReject_Accept(t *testing.T) {
	t.Parallel()
	const isJSON, isText = "application/problem+json", "text/plain; charset=utf-8"
	for accept, want := range map[string]string{
		"": isJSON, "*/*": isJSON, "application/json": isJSON, "Application/JSON; charset=utf-8": isJSON,
		"text/plain": isText, "TEXT/PLAIN": isText, "text/plain, */*;q=0.1": isText, "text/plain, application/json;q=0.9": isText,
		"application/json, text/plain, */*":                               isJSON,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": isJSON,
		"image/png, |text/plain":                                          isText,
	} {
		w := httptest.NewRecorder()
		r := get("/")
		r.Header["Accept"] = strings.Split(accept, "|")
		server.Reject(w, r, server.Rejection{Status: 429, Detail: "later"})
		require.Equal(t, want, w.Header().Get("Content-Type"), accept)
		if want == isText {
			require.Equal(t, "Too Many Requests: later\n", w.Body.String())
		}
	}
}

func TestReject_Head(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	server.Reject(w, httptest.NewRequest(http.MethodHead, "/", http.NoBody), server.Rejection{Status: 429, RetryAfter: time.Second})
	require.Equal(t, 429, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.Empty(t, w.Body.String())
}

func TestReject_AfterHeader(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(w http.ResponseWriter){
		"header": func(w http.ResponseWriter) { w.WriteHeader(http.StatusCreated) },
		"body":   func(w http.ResponseWriter) { _, _ = w.Write([]byte("begun")) },
		"further out": func(w http.ResponseWriter) {
			w.(interface{ Unwrap() http.ResponseWriter }).Unwrap().WriteHeader(http.StatusCreated)
		},
		"further in":   func(w http.ResponseWriter) { wrapped, _ := record(w); wrapped.WriteHeader(http.StatusCreated) },
		"in a foreign": func(w http.ResponseWriter) { foreign{w}.WriteHeader(http.StatusCreated) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inner := httptest.NewRecorder()
			outer, rec := record(inner)
			w, _ := record(outer)
			begin(w)
			before := inner.Body.String()
			server.Reject(foreign{w}, get("/"), server.Rejection{Status: 503, RetryAfter: time.Second})
			require.NotEqual(t, 503, inner.Code)
			require.Equal(t, before, inner.Body.String())
			require.Empty(t, inner.Header().Get("Retry-After"))
			require.NoError(t, rec.Rejected(), "the handler was called")
		})
	}
}

// foreign is somebody else's wrapper, with Unwrap and nothing else.
type foreign struct{ http.ResponseWriter }

func (f foreign) Unwrap() http.ResponseWriter { return f.ResponseWriter }

func TestReject_SeenFurtherOut(t *testing.T) {
	t.Parallel()
	w1, outer := record(httptest.NewRecorder())
	w2, middle := record(foreign{w1})
	full := fmt.Errorf("full: %w", core.ErrRejected)
	server.Reject(foreign{w2}, get("/"), server.Rejection{Err: full})
	require.ErrorIs(t, outer.Rejected(), full)
	require.ErrorIs(t, middle.Rejected(), full)
	require.Equal(t, 503, outer.Status())

	w1, outer = record(httptest.NewRecorder())
	server.Reject(w1, get("/"), server.Rejection{})
	require.ErrorIs(t, outer.Rejected(), core.ErrRejected)

	w1, outer = record(httptest.NewRecorder())
	http.Error(w1, "mine", http.StatusTooManyRequests)
	require.NoError(t, outer.Rejected(), "a handler that answers 429 was called")
}

// The handler was called: a breaker further out judges the status.
func TestReject_OtherError(t *testing.T) {
	t.Parallel()
	inner := httptest.NewRecorder()
	w, outer := record(inner)
	server.Reject(w, get("/"), server.Rejection{Err: errors.New("database")})
	require.NoError(t, outer.Rejected())
	require.Equal(t, 503, outer.Status())
	body := inner.Body.String()
	server.Reject(w, get("/"), server.Rejection{})
	require.Equal(t, body, inner.Body.String(), "once is enough")
}

func TestReject_FieldsOfOtherContent(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	for _, field := range []string{"Content-Encoding", "ETag", "Last-Modified", "Content-Length", "X-Kept"} {
		w.Header().Set(field, "gzip")
	}
	server.Reject(w, get("/"), server.Rejection{})
	require.Equal(t, http.Header{"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"}, "X-Kept": {"gzip"}}, w.Header())
}

func TestRejection_Error(t *testing.T) {
	t.Parallel()
	cause := errors.New("no length")
	err := error(server.Rejection{Status: 411, Detail: "send Content-Length", Err: cause})
	require.EqualError(t, err, "server: Length Required: send Content-Length: no length")
	require.ErrorIs(t, err, cause)
	require.EqualError(t, server.Rejection{}, "server: Service Unavailable")
}

// A client that sends the header and then nothing gets its answer, and one that has sent all
// keeps its connection.
func TestReject_UnreadBody(t *testing.T) {
	t.Parallel()
	const post = "POST / HTTP/1.1\r\nHost: api.test\r\n"
	first := func(path string) string { return strings.Replace(post, " / ", " "+path+" ", 1) }
	for _, tt := range []struct {
		name, sent, rest string
		after            time.Duration // until rest is sent, 0: after the response
		closes           bool
	}{
		{name: "no body", sent: post + "Content-Length: 0\r\n\r\n"},
		{name: "complete", sent: post + "Content-Length: 5\r\n\r\n12345"},
		{name: "complete, of 100 kB", sent: post + "Content-Length: 100000\r\n\r\n" + strings.Repeat("1", 60000), rest: strings.Repeat("1", 40000), after: time.Millisecond},
		{name: "just behind the header", sent: post + "Content-Length: 5\r\n\r\n", rest: "12345", after: time.Millisecond},
		{name: "stalls", sent: post + "Content-Length: 1000\r\n\r\n12345", closes: true},
		{name: "stalls at once", sent: post + "Content-Length: 1000\r\n\r\n", closes: true},
		{name: "goes on", sent: post + "Content-Length: 1000\r\n\r\n12345", rest: strings.Repeat("1", 995), closes: true},
		{name: "long", sent: post + "Content-Length: 1000000\r\n\r\n12345", closes: true},
		{name: "chunked, stalls", sent: post + "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n", closes: true},
		{name: "chunked, complete", sent: post + "Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n", closes: true},
		{name: "waits for 100 Continue", sent: post + "Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n", closes: true},
		{name: "asked for the close, goes on", sent: post + "Connection: close\r\nContent-Length: 1000\r\n\r\n12345", rest: strings.Repeat("1", 995), closes: true},
		{name: "long, asked for the close", sent: post + "Connection: close\r\nContent-Length: 1000000\r\n\r\n12345", rest: strings.Repeat("1", 60000), closes: true},
		{name: "HTTP/1.0", sent: strings.Replace(post, "1.1", "1.0", 1) + "Content-Length: 1000\r\n\r\n12345", rest: strings.Repeat("1", 995), closes: true},
		{name: "read by the handler", sent: first("/read") + "Content-Length: 5\r\n\r\n12345"},
		{name: "hidden writer, stalls", sent: first("/hidden") + "Content-Length: 1000\r\n\r\n12345", closes: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				network := resiltest.NewNetwork()
				srv := &http.Server{Handler: http.HandlerFunc(rejectOrWait)}
				defer func() { _ = srv.Close() }()
				go func() { _ = srv.Serve(network) }()
				conn := core.Must(network.DialContext(t.Context(), "tcp", "api.test:80"))
				defer func() { _ = conn.Close() }()
				require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Hour)))
				began := time.Now()
				_ = core.Must(io.WriteString(conn, tt.sent))
				if tt.after > 0 {
					time.Sleep(tt.after)
					_ = core.Must(io.WriteString(conn, tt.rest))
				}
				in := bufio.NewReader(conn)
				resp, err := http.ReadResponse(in, nil)
				require.NoError(t, err, "no answer")
				require.LessOrEqual(t, time.Since(began), 10*time.Millisecond)
				require.Equal(t, 429, resp.StatusCode)
				require.Equal(t, tt.closes, resp.Close)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(t, err)
				if tt.closes {
					synctest.Wait() // a connection that is closed at once is closed now
					if tt.rest != "" {
						_ = core.Must(io.WriteString(conn, tt.rest))
					}
					if tt.name == "hidden writer, stalls" {
						return // net/http closes when the client does
					}
					_, err = in.ReadByte()
					require.ErrorIs(t, err, io.EOF, "not a reset, which could overtake the answer")
					require.LessOrEqual(t, time.Since(began), 2*time.Second)
					return
				}
				_ = core.Must(io.WriteString(conn, "GET /wait HTTP/1.1\r\nHost: api.test\r\n\r\n"))
				resp, err = http.ReadResponse(in, nil)
				require.NoError(t, err)
				require.Equal(t, 200, resp.StatusCode, "the context of a later request has ended")
			})
		})
	}
}

func rejectOrWait(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/wait":
		select {
		case <-time.After(time.Minute):
		case <-r.Context().Done():
			w.WriteHeader(http.StatusTeapot)
		}
		return
	case "/read":
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	case "/hidden":
		w = struct{ http.ResponseWriter }{w}
	}
	server.Reject(w, r, server.Rejection{Status: 429})
}

// Connection: close would end all streams of the connection.
func TestReject_HTTP2(t *testing.T) {
	t.Parallel()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.Reject(w, r, server.Rejection{Status: 429})
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	for i := range 3 {
		body, stalled := io.Pipe()
		defer func() { _ = stalled.Close() }()
		var conn httptrace.GotConnInfo
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { conn = c }})
		resp, err := srv.Client().Do(core.Must(http.NewRequestWithContext(ctx, http.MethodPost, srv.URL, body)))
		require.NoError(t, err)
		require.Equal(t, 2, resp.ProtoMajor)
		require.Equal(t, 429, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, i > 0, conn.Reused)
	}
}
