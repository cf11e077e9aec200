package reject

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// One type for each set of optional interfaces that writers of net/http have. Each is one pointer, so that none costs an
// allocation.
type (
	flusher   struct{ writer }
	hijacker  struct{ writer }
	connected struct{ flusher }   // and hijacker
	http1     struct{ connected } // and io.ReaderFrom
)

func (w flusher) Flush()            { _ = w.flush() } // as http.Flusher has it, it returns no error
func (w flusher) FlushError() error { return w.flush() }

func (w hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error)  { return w.hijack() }
func (w connected) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.hijack() }

func (w http1) ReadFrom(r io.Reader) (int64, error) { return w.readFrom(r) }

// writer returns rec as the type with the methods of the writer below. It can flush and hijack also where
// [http.ResponseController] finds that further below: if the Recorder did not have the method, the controller would call the
// writer there, and the Recorder would not see the call.
func (rec *Recorder) writer() http.ResponseWriter {
	flushes, hijacks := false, false
	for w := rec.w; ; {
		switch w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			flushes = true
		}
		if _, ok := w.(http.Hijacker); ok {
			hijacks = true
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = u.Unwrap()
	}
	_, reads := rec.w.(io.ReaderFrom)
	w := writer{rec}
	switch {
	case flushes && hijacks && reads:
		return http1{connected{flusher{w}}}
	case flushes && hijacks:
		return connected{flusher{w}}
	case flushes:
		return flusher{w}
	case hijacks:
		return hijacker{w}
	}
	return w
}
