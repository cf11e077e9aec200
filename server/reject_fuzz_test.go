package server_test

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/gresil/gresil/server"
)

// FuzzReject_Body looks for a body that encoding/json would write otherwise.
func FuzzReject_Body(f *testing.F) {
	f.Add("", "", "", "", "", 0)
	f.Add("https://a.test/#b", "Too <b>", "100% & \"more\"\\", "a", "b\u2028", 2)
	f.Add("\x7f", "naïve\n", "\xff\xed\xa0\x80", "", "x", 1)
	f.Fuzz(func(t *testing.T, kind, title, detail, first, second string, n int) {
		rej := server.Rejection{Status: 429, Type: kind, Title: title, Detail: detail, Policies: []string{first, second}[:uint(n)%3]}
		w := httptest.NewRecorder()
		server.Reject(w, get("/"), rej)
		if kind == "" {
			kind = "about:blank"
		}
		if title == "" {
			title = "Too Many Requests"
		}
		want, err := json.Marshal(struct {
			Type     string   `json:"type"`
			Title    string   `json:"title"`
			Status   int      `json:"status"`
			Detail   string   `json:"detail,omitempty"`
			Policies []string `json:"violated-policies,omitempty"`
		}{kind, title, rej.Status, detail, rej.Policies})
		if err != nil || w.Body.String() != string(want) {
			t.Fatalf("got %s, want %s, %v", w.Body, want, err)
		}
	})
}
