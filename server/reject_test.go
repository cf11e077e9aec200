package server_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
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

func TestReject_BodyFollowsAccept(t *testing.T) {
	t.Parallel()
	const isJSON, isText = "application/problem+json", "text/plain; charset=utf-8"
	for _, tt := range []struct {
		accept []string
		want   string
	}{
		{nil, isJSON},
		{[]string{""}, isJSON},
		{[]string{"*/*"}, isJSON},
		{[]string{"application/json"}, isJSON},
		{[]string{"application/problem+json"}, isJSON},
		{[]string{"Application/JSON; charset=utf-8"}, isJSON},
		{[]string{"application/*"}, isJSON},
		{[]string{"text/plain"}, isText},
		{[]string{"text/*"}, isText},
		{[]string{"TEXT/PLAIN"}, isText},
		{[]string{"text/plain, application/json"}, isJSON},
		{[]string{"text/plain, application/json;q=0.9"}, isText},
		{[]string{"text/plain;q=0.8, application/json;q=0.9"}, isJSON},
		{[]string{"text/plain;q=0.8", "application/problem+json;q=0.7"}, isText},
		{[]string{"text/plain;q=0.5, */*"}, isJSON},
		{[]string{"text/plain, */*;q=0.1"}, isText},
		{[]string{"application/json;q=0, */*"}, isText},
		{[]string{"application/problem+json;q=0, application/json"}, isText},
		{[]string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, isJSON},
		{[]string{"text/html"}, isText},
		{[]string{"image/png"}, isText},
		{[]string{"*/*;q=0"}, isText},
		{[]string{"text/plain;q=2, application/json"}, isJSON},
		{[]string{"text/plain;q=NaN, application/json;q=0.1"}, isJSON},
		{[]string{"application/json ; v=1 ; Q=0.4, text/plain; q = 0.5"}, isText},
		{[]string{",,,"}, isJSON},
	} {
		w := httptest.NewRecorder()
		r := get("/")
		r.Header["Accept"] = tt.accept
		server.Reject(w, r, server.Rejection{Status: 429, Detail: "later"})
		require.Equal(t, tt.want, w.Header().Get("Content-Type"), strings.Join(tt.accept, " | "))
		if tt.want == isText {
			require.Equal(t, "Too Many Requests: later\n", w.Body.String())
		}
	}
}

func TestReject_HeadHasNoBody(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	server.Reject(w, httptest.NewRequest(http.MethodHead, "/", http.NoBody), server.Rejection{Status: 429, RetryAfter: time.Second})
	require.Equal(t, 429, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.Empty(t, w.Body.String())
}

func TestReject_NothingAfterTheHeader(t *testing.T) {
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

func TestReject_IsSeenFurtherOut(t *testing.T) {
	t.Parallel()
	w1, outer := record(httptest.NewRecorder())
	w2, middle := record(foreign{w1})
	full := errors.New("full")
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

func TestStatusError(t *testing.T) {
	t.Parallel()
	cause := errors.New("no length")
	err := &server.StatusError{Status: 411, Detail: "send Content-Length", Err: cause}
	require.EqualError(t, err, "server: Length Required: send Content-Length: no length")
	require.ErrorIs(t, err, cause)
	require.EqualError(t, &server.StatusError{Status: 413}, "server: Request Entity Too Large")
}
