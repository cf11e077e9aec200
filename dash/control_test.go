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
	"github.com/gresil/gresil/internal/registry"
)

const formType, jsonType = "application/x-www-form-urlencoded", "application/json"

func post(h http.Handler, mediaType, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://page.example.com/control", strings.NewReader(body))
	return send(h, r, append(header, "Content-Type", mediaType)...)
}

func form(verb, row string) string {
	return url.Values{"verb": {verb}, "kind": {"batch"}, "name": {"crm"}, "row": {row}, "confirmed": {"yes"}}.Encode()
}

// fields returns the hidden fields of the forms of a page, as a browser sends them.
func fields(page string) url.Values {
	all := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(page, -1) {
		all.Set(m[1], html.UnescapeString(m[2]))
	}
	return all
}

func TestControlsAreOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := faked(t, "a")
		h := handler(t, all, dash.Config{})
		for _, verb := range []string{"pause", "delete", "x"} {
			require.Equal(t, http.StatusNotFound, post(h, formType, form(verb, "a")).Code)
			require.Equal(t, http.StatusNotFound, post(h, jsonType, `{"verb":"`+verb+`","kind":"batch","name":"crm","row":"a"}`).Code)
		}
		require.Equal(t, http.StatusNotFound, get(h, "/control").Code)
		require.Equal(t, http.StatusNotFound, post(h, formType, form("pause", "a"), "Sec-Fetch-Site", "cross-site").Code, "from any origin")
		require.Empty(t, f.asked)
		require.Empty(t, rowA(t, state(t, h, "")).Verbs)
		page := get(h, "/").Body.String()
		require.NotContains(t, page, `method="post"`)
		require.NotContains(t, page, "Pause")
	})
}

func TestFormLeadsBackToItsPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := faked(t, "a", "b")
		h := handler(t, all, dash.Config{Controls: allow})
		form := fields(get(h, "/?kind=batch&n=7&q=b").Body.String())
		form.Set("verb", "pause")
		w := post(h, formType, form.Encode())
		require.Equal(t, http.StatusSeeOther, w.Code)
		require.Equal(t, "./?done=yes&kind=batch&n=7&q=b", w.Header().Get("Location"))
		require.Equal(t, []string{"pause b"}, f.asked)
		page := get(h, w.Header().Get("Location")[1:]).Body.String()
		require.Contains(t, page, `<p role="status" class="done">Done.</p>`)
		require.NotRegexp(t, `href="[^"]*done=`, page, "its links do not say so again")
		for _, back := range []string{"https://evil.example.com", "//evil.example.com", "?q=" + strings.Repeat("x", 5000), "%zz"} {
			form.Set("back", back)
			require.Equal(t, "./?done=yes", post(h, formType, form.Encode()).Header().Get("Location"), back)
		}
	})
}

// Every key survives the way into the page, through a browser, and back.
func TestAnyRowCanBeControlled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := faked(t, hostile()...)
		h := handler(t, all, dash.Config{Controls: allow})
		page := get(h, "/").Body.String()
		requireHarmless(t, page)
		found := regexp.MustCompile(`name="target" value="([^"]*)"`).FindAllStringSubmatch(page, -1)
		require.Len(t, found, len(hostile()))
		want := []string{}
		for _, m := range found {
			target := html.UnescapeString(m[1])
			require.Regexp(t, "^[!-~]*$", target, "a browser does not change it")
			require.Equal(t, http.StatusSeeOther, post(h, formType, url.Values{"verb": {"flush"}, "target": {target}}.Encode()).Code)
			w := post(h, formType, url.Values{"verb": {"delete"}, "target": {target}}.Encode())
			require.Equal(t, http.StatusOK, w.Code)
			requireHarmless(t, w.Body.String())
		}
		for _, row := range state(t, h, "").Tables[0].Rows { // as JSON, too
			body, err := json.Marshal(map[string]string{"verb": "pause", "target": row.Target})
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, post(h, jsonType, string(body)).Code)
		}
		for _, key := range hostile() {
			want = append(want, "flush "+key, "pause "+key)
		}
		require.ElementsMatch(t, want, f.asked)
	})
}

func TestDeleteAsksFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := faked(t, `a"><script>`)
		h := handler(t, all, dash.Config{Controls: allow})
		f.rows[0].Verbs = []string{"delete_failed"}
		ask := url.Values{"verb": {"delete_failed"}, "kind": {"batch"}, "name": {"crm"}, "row": {`a"><script>`}, "back": {"./?kind=batch"}}
		w := post(h, formType, ask.Encode())
		require.Equal(t, http.StatusOK, w.Code)
		require.Empty(t, f.asked)
		page := w.Body.String()
		requireHarmless(t, page)
		require.Contains(t, page, "Delete failed crm a&#34;&gt;&lt;script&gt;? This cannot be undone.")
		require.Contains(t, page, "<li>Pending: 4</li>")
		require.Contains(t, page, `<a href="./?kind=batch">Cancel</a>`)
		answer := fields(page)
		answer.Set("verb", "delete_failed")
		w = post(h, formType, answer.Encode())
		require.Equal(t, http.StatusSeeOther, w.Code)
		require.Equal(t, "./?done=yes&kind=batch", w.Header().Get("Location"))
		require.Equal(t, []string{`delete_failed a"><script>`}, f.asked)
		require.JSONEq(t, `{"verb":"delete_failed","kind":"batch","name":"crm","row":"a\"><script>","count":3}`,
			post(h, formType, ask.Encode(), "Accept", "application/json").Body.String(), "a program is not asked")
	})
}

func TestCrossOriginControls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			header  []string
			allowed bool
		}{
			"no browser":          {nil, true},
			"same origin":         {[]string{"Sec-Fetch-Site", "same-origin"}, true},
			"typed":               {[]string{"Sec-Fetch-Site", "none"}, true},
			"cross site":          {[]string{"Sec-Fetch-Site", "cross-site"}, false},
			"another port":        {[]string{"Sec-Fetch-Site", "same-site", "Origin", "http://page.example.com:81"}, false},
			"plain http, same":    {[]string{"Origin", "http://page.example.com"}, true},
			"plain http, another": {[]string{"Origin", "http://evil.example.com"}, false},
			"opaque":              {[]string{"Origin", "null"}, false},
		} {
			f, all := faked(t, "a")
			h := handler(t, all, dash.Config{Controls: allow})
			for _, body := range [][2]string{{formType, form("pause", "a")}, {jsonType, `{"verb":"pause","kind":"batch","name":"crm","row":"a"}`}} {
				require.Equal(t, !c.allowed, post(h, body[0], body[1], c.header...).Code == http.StatusForbidden, name)
			}
			require.Equal(t, c.allowed, len(f.asked) == 2, name)
			w := get(h, "/control?"+form("pause", "a"), c.header...)
			require.Equal(t, http.StatusMethodNotAllowed, w.Code, "a GET never controls")
			require.Equal(t, "POST", w.Header().Get("Allow"))
			require.LessOrEqual(t, len(f.asked), 2)
		}
	})
}

func TestControlThatCannotBeDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := faked(t, "a")
		put(t, all, "batch", "strange", registry.Source{})
		h := handler(t, all, dash.Config{Controls: allow})
		valid := `{"verb":"pause","kind":"batch","name":"crm","row":"a"}`
		for name, c := range map[string]struct {
			mediaType, body string
			status          int
			detail          string
		}{
			"unknown row":      {jsonType, strings.Replace(valid, `"a"`, `"none"`, 1), 404, "there is no such target"},
			"unknown instance": {jsonType, strings.Replace(valid, "crm", "none", 1), 404, "there is no such target"},
			"unknown kind":     {jsonType, strings.Replace(valid, `"batch"`, `"none"`, 1), 404, "there is no such target"},
			"no controls":      {jsonType, strings.Replace(valid, "crm", "strange", 1), 404, "there is no such target"},
			"unknown verb":     {jsonType, strings.Replace(valid, "pause", "drop", 1), 409, `verb = "drop": its state permits only: pause, flush, delete`},
			"no body":          {jsonType, "", 400, "the body cannot be read: EOF"},
			"no JSON":          {jsonType, "{", 400, "the body cannot be read"},
			"unknown field":    {jsonType, `{"verbs":"pause"}`, 400, `the body cannot be read: json: unknown field "verbs"`},
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
		f.rows, f.err = nil, errors.New(`dial "redis://user:secret@host": refused`)
		w := post(h, jsonType, valid)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Contains(t, w.Body.String(), "refused")
		require.NotContains(t, w.Body.String(), "secret")
	})
}

func TestControlsDecideAndLoggerRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := faked(t, "a", "b")
		var log bytes.Buffer
		var asked []dash.Action
		h := handler(t, all, dash.Config{
			Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}})),
			Controls: func(r *http.Request, a dash.Action) error {
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
		require.Equal(t, `level=WARN msg="control refused" verb=delete kind=batch name=crm row=a reason="only for <admins>"
level=INFO msg="control done" verb=delete kind=batch name=crm row=b count=3
level=WARN msg="control refused" verb="" kind="" name="" row="" reason="cross-origin request"
`, log.String())
		log.Reset()
		post(h, formType, form("delete", strings.Repeat("a", 10_000)))
		post(h, "application/json", `{"`+strings.Repeat("a", 10_000)+`":1}`)
		require.Equal(t, 2, strings.Count(log.String(), "control refused"))
		require.Less(t, log.Len(), 2000)
	})
}

// A client that disconnects does not leave a control half done, and one that does not end is given up.
func TestControlOutlivesItsClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := &fake{rows: []registry.Row{{Key: "a", Verbs: []string{"pause"}}}}, &core.Registry{}
		source, wait := f.source(), 5*time.Second
		source.Control = func(ctx context.Context, _, _ string) (int, error) {
			select {
			case <-time.After(wait):
				return 1, nil
			case <-ctx.Done():
				return 2, context.Cause(ctx)
			}
		}
		put(t, all, "batch", "crm", source)
		h := handler(t, all, dash.Config{Controls: allow})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := httptest.NewRequest(http.MethodPost, "/control", strings.NewReader(form("pause", "a"))).WithContext(ctx)
		began := time.Now()
		require.Equal(t, http.StatusSeeOther, send(h, r, "Content-Type", formType).Code)
		require.Equal(t, 5*time.Second, time.Since(began))
		wait, began = time.Hour, time.Now()
		w := post(h, formType, form("pause", "a"))
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Contains(t, w.Body.String(), "the control failed after 2 changes: context deadline exceeded")
		require.Equal(t, 30*time.Second, time.Since(began))
	})
}

func TestControlThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := &fake{rows: []registry.Row{{Key: "a", Verbs: []string{"pause"}}}}, &core.Registry{}
		source := f.source()
		source.Control = func(context.Context, string, string) (int, error) { panic("pause") }
		put(t, all, "batch", "crm", source)
		var log bytes.Buffer
		h := handler(t, all, dash.Config{Controls: allow, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		w := post(h, formType, form("pause", "a"))
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Contains(t, w.Body.String(), "panic: pause")
		require.Contains(t, log.String(), "control failed")
	})
}
