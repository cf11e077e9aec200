package reject

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	most   = 256 << 10            // bytes; of a longer rest net/http closes the connection too
	grace  = 5 * time.Millisecond // for a body whose header was faster
	linger = time.Second          // for a client that sends before it reads
)

// release lets the answer to r go out at once. It is called before the header is sent, since
// net/http reads the rest of the body first, as long as the client takes to send it.
//
// A body that is here already is read, and the connection can be used again. Reading is the
// only way to learn whether it is, and if it is not, ends the context of r. Then the answer
// closes the connection: net/http sends it first, and reads up to 256 KiB for at most a second
// more, since the client might otherwise get a reset instead of the answer. If the client has
// asked for the close, net/http reads nothing more and closes at once. So it is told that the
// body is too large: then it waits for half a second before it closes.
//
// Two bodies are not tried: a chunked one, since after a failed read the rest could not be read,
// and one whose client waits for a 100 Continue, which the read would send. HTTP/2 needs none of
// this.
func release(w http.ResponseWriter, r *http.Request, status int) {
	if r.ProtoMajor != 1 || r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return
	}
	for rec := range recorders(w) { // which judge the handler by the context, and may call release
		rec.sent(status)
	}
	conn, closes := http.NewResponseController(w), w.Header().Get("Connection") == "close"
	if closes || r.ContentLength > 0 && r.ContentLength <= most && r.Header["Expect"] == nil && ended(conn, r) {
		return
	}
	w.Header().Set("Connection", "close")
	_ = conn.SetReadDeadline(time.Now().Add(linger)) // a writer that cannot has another connection
	if r.Close {
		for u, ok := w.(unwrapper); ok; u, ok = w.(unwrapper) {
			w = u.Unwrap()
		}
		_, _ = http.MaxBytesReader(w, io.NopCloser(strings.NewReader("too large")), 0).Read(make([]byte, 1))
	}
}

type unwrapper interface{ Unwrap() http.ResponseWriter }

// ended reads what is here of the body of r, and reports whether that was all of it.
func ended(conn *http.ResponseController, r *http.Request) bool {
	until := time.Now().Add(grace)
	if conn.SetReadDeadline(until) != nil {
		return false // a read might take for ever
	}
	_, err := io.CopyN(io.Discard, r.Body, r.ContentLength+1)
	if err != io.EOF && !errors.Is(err, http.ErrBodyReadAfterClose) { //nolint:errorlint // as io.Reader has it
		return false
	}
	// At the end of the body net/http reads on, to notice that the client leaves. A deadline that
	// passes would end the contexts of all further requests.
	return conn.SetReadDeadline(time.Time{}) == nil && time.Now().Before(until)
}
