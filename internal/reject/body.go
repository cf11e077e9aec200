package reject

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gresil/gresil/core"
)

// Details are the members of a problem.
type Details struct {
	Type     string   `json:"type"`
	Title    string   `json:"title,omitempty"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Policies []string `json:"violated-policies,omitempty"`
}

// A Body is the body of a response in each format. It can be sent many times.
type Body struct {
	status     int
	json, text []byte
}

// Body prepares the body, with the defaults for empty members.
func (d Details) Body() *Body {
	d.Status = cmp.Or(d.Status, http.StatusServiceUnavailable)
	d.Type = cmp.Or(d.Type, "about:blank")
	d.Title = cmp.Or(d.Title, http.StatusText(d.Status))
	b := &Body{status: d.Status, text: []byte(d.Title + "\n")}
	if d.Detail != "" {
		b.text = []byte(d.Title + ": " + d.Detail + "\n")
	}
	b.json, _ = json.Marshal(d) // strings and a number: it cannot fail
	return b
}

// Send answers a request. A negative wait is no Retry-After.
func (b *Body) Send(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	h := w.Header()
	for _, field := range [...]string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified"} {
		delete(h, field) // it was for another content
	}
	body, lines := b.json, &[3]string{"no-store", "application/problem+json"} // in one allocation
	if prefersText(r.Header["Accept"]) {
		body, lines[1] = b.text, "text/plain; charset=utf-8"
	}
	h["Cache-Control"], h["Content-Type"] = lines[:1:1], lines[1:2:2]
	delete(h, "Retry-After")
	if wait >= 0 {
		lines[2] = retryAfterText(wait)
		h["Retry-After"] = lines[2:]
	}
	release(w, r, b.status)
	w.WriteHeader(b.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // an error has no receiver: the client went away
	}
}

// Wait returns what Retry-After has for a rejection: after or, if that is zero, what err asks for. It is negative for none.
func Wait(after time.Duration, err error) time.Duration {
	if after != 0 {
		return after
	}
	if asked, ok := core.RetryAfter(err); ok {
		return asked
	}
	return -1
}

// Seconds returns d in seconds, rounded up.
func Seconds(d time.Duration) int64 {
	n := int64(d / time.Second)
	if d%time.Second > 0 {
		n++
	}
	return n
}

// retryAfterText returns Retry-After for a wait that is not negative: seconds, rounded up and at least 1.
func retryAfterText(wait time.Duration) string { return strconv.FormatInt(max(1, Seconds(wait)), 10) }

// prefersText reports whether a client names plain text in its Accept, and JSON not before it.
func prefersText(accept []string) bool {
	all := strings.ToLower(strings.Join(accept, ","))
	text, json := strings.Index(all, "text/plain"), strings.Index(all, "json")
	return text >= 0 && (json < 0 || text < json)
}
