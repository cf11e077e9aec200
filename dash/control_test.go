package dash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/dash"
	"github.com/gresil/gresil/outbound/batch"
)

// done is the JSON after a control.
type done struct {
	Verb, Kind, Name, Option string
	Count                    *float64
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &v), w.Body)
	return v
}

func post(h http.Handler, mediaType, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://page.example.com/api/control", strings.NewReader(body))
	r.Header.Set("Content-Type", mediaType)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// ask posts a control of a group of the batcher members, as JSON.
func ask(t *testing.T, h http.Handler, verb, option string) done {
	t.Helper()
	body, err := json.Marshal(map[string]string{"verb": verb, "kind": "batch", "name": "members", "option": option})
	require.NoError(t, err)
	w := post(h, "application/json", string(body))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	return decode[done](t, w)
}

// fake is a batcher that records the controls.
type fake struct {
	groups []batch.GroupInfo
	err    error
	asked  []string
}

func (f *fake) Snapshot(context.Context) (batch.Snapshot, error) {
	return batch.Snapshot{Method: "m", Groups: f.groups}, f.err
}
func (f *fake) Groups(context.Context) ([]batch.GroupInfo, error) { return f.groups, f.err }
func (f *fake) Flush(_ context.Context, options ...string) error {
	return f.note("flush", strings.Join(options, ","))
}
func (f *fake) Pause(_ context.Context, option string) error  { return f.note("pause", option) }
func (f *fake) Resume(_ context.Context, option string) error { return f.note("resume", option) }
func (f *fake) Delete(_ context.Context, option string) (int, error) {
	return 7, f.note("delete", option)
}

func (f *fake) Retry(_ context.Context, option string) (int, error) {
	return 3, f.note("retry", option)
}

func (f *fake) note(verb, option string) error {
	f.asked = append(f.asked, verb+" "+option)
	return nil
}

func faked(t *testing.T, options ...string) (*fake, *core.Registry) {
	t.Helper()
	f, registry := &fake{}, &core.Registry{}
	for _, option := range options {
		f.groups = append(f.groups, batch.GroupInfo{Option: option, Pending: 4, Failed: 3})
	}
	put(t, registry, "batch", "crm", f)
	return f, registry
}

func form(verb, option string) string {
	return url.Values{"verb": {verb}, "kind": {"batch"}, "name": {"crm"}, "option": {option}, "confirmed": {"yes"}}.Encode()
}

const formType, jsonType = "application/x-www-form-urlencoded", "application/json"

func TestAPageWithoutControlsOnlyShows(t *testing.T) {
	t.Parallel()
	f, registry := faked(t, "a")
	h := handler(t, registry, dash.Config{})
	for _, verb := range []string{"pause", "resume", "flush", "retry", "delete", "x"} {
		require.Equal(t, http.StatusNotFound, post(h, formType, form(verb, "a")).Code)
		require.Equal(t, http.StatusNotFound, post(h, jsonType, `{"verb":"`+verb+`","kind":"batch","name":"crm","option":"a"}`).Code)
	}
	require.Equal(t, http.StatusNotFound, get(h, "/api/control").Code)
	require.Empty(t, f.asked)
	page := get(h, "/").Body.String()
	require.NotContains(t, page, `method="post"`)
	require.NotContains(t, page, "Pause")
}

func TestAFormLeadsBackToItsPage(t *testing.T) {
	t.Parallel()
	f, registry := faked(t, "a", "b")
	for name, mounted := range mounts(handler(t, registry, dash.Config{Controls: true})) {
		server := httptest.NewServer(mounted)
		prefix := "/ops/dash/"
		client := server.Client()
		f.asked = nil
		// The form of the page, as a browser sends it.
		body := get(mounted, prefix+"?kind=batch&n=7&q=b").Body.String()
		fields := url.Values{"verb": {"pause"}}
		for _, m := range regexp.MustCompile(`<input type="hidden" name="(target|back)" value="([^"]*)">`).FindAllStringSubmatch(body, -1) {
			fields.Set(m[1], html.UnescapeString(m[2]))
		}
		action := regexp.MustCompile(`<form method="post" action="\./([^"]*)"`).FindStringSubmatch(body)[1]
		res, err := client.PostForm(server.URL+prefix+action, fields)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode, name)
		require.Equal(t, http.MethodGet, res.Request.Method)
		require.Equal(t, server.URL+prefix+"?done=pause&kind=batch&n=7&q=b", res.Request.URL.String(), name)
		require.Equal(t, []string{"pause b"}, f.asked, name)
		server.Close()
	}
	h := handler(t, registry, dash.Config{Controls: true})
	w := post(h, formType, form("pause", "a"))
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "../?done=pause", w.Header().Get("Location"))
	require.Contains(t, get(h, "/?done=pause").Body.String(), `<p role="status" class="done">Done: pause.</p>`)
	require.NotContains(t, get(h, "/?done=%3Cscript%3E").Body.String(), "Done")
	for _, back := range []string{"https://evil.example.com", "//evil.example.com", "?kind=none", "?q=" + strings.Repeat("x", 5000)} {
		w := post(h, formType, form("pause", "a")+"&back="+url.QueryEscape(back))
		require.Equal(t, "../?done=pause", w.Header().Get("Location"), back)
	}
}

// Every option survives the way into the page, through a browser, and back.
func TestAnyOptionCanBeControlled(t *testing.T) {
	t.Parallel()
	options := hostile()
	f, registry := faked(t, options...)
	h := handler(t, registry, dash.Config{Controls: true})
	page := get(h, "/").Body.String()
	requireHarmless(t, page)
	found := regexp.MustCompile(`name="target" value="([^"]*)"`).FindAllStringSubmatch(page, -1)
	require.Len(t, found, len(options))
	for _, m := range found {
		target := html.UnescapeString(m[1])
		require.Regexp(t, "^[!-~]*$", target, "a browser does not change it")
		require.Equal(t, http.StatusSeeOther, post(h, formType, url.Values{"verb": {"flush"}, "target": {target}}.Encode()).Code)
		w := post(h, formType, url.Values{"verb": {"delete"}, "target": {target}}.Encode())
		require.Equal(t, http.StatusOK, w.Code)
		requireHarmless(t, w.Body.String())
	}
	var want []string
	for _, option := range options {
		want = append(want, "flush "+option)
	}
	require.ElementsMatch(t, want, f.asked)
	f.asked, want = nil, nil
	for _, row := range state(t, h, "").Rows { // as JSON, too
		target, _ := row["target"].(string)
		body, err := json.Marshal(map[string]string{"verb": "retry", "target": target})
		require.NoError(t, err)
		require.Equal(t, 3.0, *decode[done](t, post(h, jsonType, string(body))).Count)
	}
	for _, option := range options {
		want = append(want, "retry "+option)
	}
	require.ElementsMatch(t, want, f.asked)
}

func TestDeleteAsksFirst(t *testing.T) {
	t.Parallel()
	f, registry := faked(t, `a"><script>`)
	h := handler(t, registry, dash.Config{Controls: true})
	fields := url.Values{"verb": {"delete"}, "kind": {"batch"}, "name": {"crm"}, "option": {`a"><script>`}, "back": {"?kind=batch"}}
	w := post(h, formType, fields.Encode())
	require.Equal(t, http.StatusOK, w.Code)
	require.Empty(t, f.asked)
	page := w.Body.String()
	requireHarmless(t, page)
	require.Contains(t, page, "Delete crm a&#34;&gt;&lt;script&gt;: 7 records? This cannot be undone.")
	require.Contains(t, page, `href="../app.css?v=`)
	require.Contains(t, page, `<a href="../?kind=batch">Cancel</a>`)
	require.Contains(t, page, `action="../api/control"`)
	fields = url.Values{}
	for _, m := range regexp.MustCompile(`name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		fields.Set(m[1], html.UnescapeString(m[2]))
	}
	w = post(h, formType, fields.Encode())
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, "../?done=delete&kind=batch", w.Header().Get("Location"))
	require.Equal(t, []string{`delete a"><script>`}, f.asked)
}

func TestACrossOriginControlIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header  []string
		allowed bool
	}{
		"no browser":                  {nil, true},
		"same origin":                 {[]string{"Sec-Fetch-Site", "same-origin"}, true},
		"typed":                       {[]string{"Sec-Fetch-Site", "none"}, true},
		"cross site":                  {[]string{"Sec-Fetch-Site", "cross-site"}, false},
		"another port":                {[]string{"Sec-Fetch-Site", "same-site", "Origin", "http://page.example.com:81"}, false},
		"plain http, same":            {[]string{"Origin", "http://page.example.com"}, true},
		"plain http, another":         {[]string{"Origin", "http://evil.example.com"}, false},
		"opaque":                      {[]string{"Origin", "null"}, false},
		"trusted":                     {[]string{"Sec-Fetch-Site", "cross-site", "Origin", "https://admin.example.com"}, true},
		"trusted, but another scheme": {[]string{"Sec-Fetch-Site", "cross-site", "Origin", "http://admin.example.com"}, false},
	} {
		f, registry := faked(t, "a")
		h := handler(t, registry, dash.Config{Controls: true, Origins: []string{"https://admin.example.com"}})
		for _, body := range [][2]string{{formType, form("pause", "a")}, {jsonType, `{"verb":"pause","kind":"batch","name":"crm","option":"a"}`}} {
			w := post(h, body[0], body[1], c.header...)
			require.Equal(t, !c.allowed, w.Code == http.StatusForbidden, name)
		}
		require.Equal(t, c.allowed, len(f.asked) == 2, name)
		// A GET never controls.
		r := httptest.NewRequest(http.MethodGet, "/api/control?"+form("pause", "a"), nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusMethodNotAllowed, w.Code)
		require.Equal(t, "POST", w.Header().Get("Allow"))
		require.LessOrEqual(t, len(f.asked), 2)
	}
}

func TestAControlThatCannotBeDoneIsNamed(t *testing.T) {
	t.Parallel()
	f, registry := faked(t, "a")
	put(t, registry, "batch", "strange", new(int))
	h := handler(t, registry, dash.Config{Controls: true})
	valid := `{"verb":"pause","kind":"batch","name":"crm","option":"a"}`
	for name, c := range map[string]struct {
		mediaType, body string
		status          int
		detail          string
	}{
		"unknown group":    {jsonType, strings.Replace(valid, `"a"`, `"none"`, 1), 404, "there is no such target"},
		"unknown instance": {jsonType, strings.Replace(valid, "crm", "none", 1), 404, "there is no such target"},
		"unknown kind":     {jsonType, strings.Replace(valid, `"batch"`, `"none"`, 1), 404, "there is no such target"},
		"no controls":      {jsonType, strings.Replace(valid, "crm", "strange", 1), 404, "there is no such target"},
		"unknown verb":     {jsonType, strings.Replace(valid, "pause", "drop", 1), 400, `verb = "drop": must be pause, resume, flush, retry or delete`},
		"no body":          {jsonType, "", 400, "the body cannot be read: EOF"},
		"no JSON":          {jsonType, "{", 400, "the body cannot be read"},
		"unknown field":    {jsonType, `{"verbs":"pause"}`, 400, `the body cannot be read: json: unknown field "verbs"`},
		"two values":       {jsonType, valid + valid, 400, "there is more than one value"},
		"bad target":       {jsonType, `{"verb":"pause","target":"%zz"}`, 400, "the body cannot be read"},
		"too large":        {jsonType, `{"verb":"` + strings.Repeat("x", 70_000) + `"}`, 413, "the body is larger than 65536 bytes"},
		"a form too large": {formType, "verb=" + strings.Repeat("x", 70_000), 413, "the body is larger than 65536 bytes"},
		"a bad form":       {formType, "verb=%zz", 400, "the body cannot be read"},
		"plain text":       {"text/plain", valid, 415, "the body must be a form or application/json"},
		"no media type":    {"", valid, 415, "the body must be a form or application/json"},
	} {
		w := post(h, c.mediaType, c.body, "Accept", "application/json")
		require.Equal(t, c.status, w.Code, name)
		require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
		require.Contains(t, decode[struct{ Detail string }](t, w).Detail, c.detail, name)
	}
	require.Equal(t, "text/html; charset=utf-8", post(h, formType, form("pause", "none")).Header().Get("Content-Type"))
	require.Empty(t, f.asked)
	f.err = errors.New(`dial "redis://user:secret@host": refused`)
	w := post(h, jsonType, valid)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "refused")
	require.NotContains(t, w.Body.String(), "secret")
	require.Contains(t, state(t, h, "").Errors[0].Error, "refused", "the page shows why, too")
}

func TestAllowDecidesAndTheLoggerRecords(t *testing.T) {
	t.Parallel()
	f, registry := faked(t, "a", "b")
	var log bytes.Buffer
	var asked []dash.Action
	h := handler(t, registry, dash.Config{
		Controls: true,
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})),
		Allow: func(r *http.Request, a dash.Action) error {
			asked = append(asked, a)
			if r.Header.Get("User") != "admin" {
				return errors.New("only for <admins>")
			}
			return nil
		},
	})
	w := post(h, formType, form("delete", "a"))
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Contains(t, w.Body.String(), "only for &lt;admins&gt;")
	require.Empty(t, f.asked)
	require.Equal(t, http.StatusSeeOther, post(h, formType, form("delete", "b"), "User", "admin").Code)
	require.Equal(t, http.StatusForbidden, post(h, formType, form("delete", "b"), "User", "admin", "Sec-Fetch-Site", "cross-site").Code)
	require.Equal(t, []dash.Action{{"delete", "batch", "crm", "a"}, {"delete", "batch", "crm", "b"}}, asked)
	require.Equal(t, `level=WARN msg="control refused" verb=delete kind=batch name=crm option=a reason="only for <admins>"
level=INFO msg="control done" verb=delete kind=batch name=crm option=b count=7
level=WARN msg="control refused" verb="" kind="" name="" option="" reason="cross-origin request"
`, log.String())
}

// A client that disconnects does not leave a control half done.
func TestAControlOutlivesItsClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := &core.Registry{}
		s := &slow{}
		put(t, registry, "batch", "crm", s)
		h := handler(t, registry, dash.Config{Controls: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := httptest.NewRequest(http.MethodPost, "/api/control", strings.NewReader(form("pause", "a"))).WithContext(ctx)
		r.Header.Set("Content-Type", formType)
		began := time.Now()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusSeeOther, w.Code)
		require.Equal(t, 5*time.Second, time.Since(began))
		s.wait = time.Hour // but it ends
		began = time.Now()
		require.Equal(t, http.StatusServiceUnavailable, post(h, formType, form("pause", "a")).Code)
		require.Equal(t, 30*time.Second, time.Since(began))
	})
}

type slow struct {
	fake
	wait time.Duration
}

func (s *slow) Groups(ctx context.Context) ([]batch.GroupInfo, error) {
	timer := time.NewTimer(max(s.wait, 5*time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
		return []batch.GroupInfo{{Option: "a"}}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
