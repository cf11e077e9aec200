package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// One type for each combination of the optional interfaces. The letters say
// which: f Flusher, h Hijacker, r io.ReaderFrom, p http.Pusher. Each adds one
// to a smaller combination; each is one pointer, so that none costs an
// allocation.
type (
	writerF    struct{ writer }
	writerH    struct{ writer }
	writerFH   struct{ writerF }
	writerR    struct{ writer }
	writerFR   struct{ writerF }
	writerHR   struct{ writerH }
	writerFHR  struct{ writerFH }
	writerP    struct{ writer }
	writerFP   struct{ writerF }
	writerHP   struct{ writerH }
	writerFHP  struct{ writerFH }
	writerRP   struct{ writerR }
	writerFRP  struct{ writerFR }
	writerHRP  struct{ writerHR }
	writerFHRP struct{ writerFHR }
)

func (w writerF) Flush()            { _ = w.flush() } // as http.Flusher has it, it returns no error
func (w writerF) FlushError() error { return w.flush() }

func (w writerH) Hijack() (net.Conn, *bufio.ReadWriter, error)  { return w.hijack() }
func (w writerFH) Hijack() (net.Conn, *bufio.ReadWriter, error) { return w.hijack() }

func (w writerR) ReadFrom(r io.Reader) (int64, error)   { return w.readFrom(r) }
func (w writerFR) ReadFrom(r io.Reader) (int64, error)  { return w.readFrom(r) }
func (w writerHR) ReadFrom(r io.Reader) (int64, error)  { return w.readFrom(r) }
func (w writerFHR) ReadFrom(r io.Reader) (int64, error) { return w.readFrom(r) }

func (w writerP) Push(target string, o *http.PushOptions) error    { return w.push(target, o) }
func (w writerFP) Push(target string, o *http.PushOptions) error   { return w.push(target, o) }
func (w writerHP) Push(target string, o *http.PushOptions) error   { return w.push(target, o) }
func (w writerFHP) Push(target string, o *http.PushOptions) error  { return w.push(target, o) }
func (w writerRP) Push(target string, o *http.PushOptions) error   { return w.push(target, o) }
func (w writerFRP) Push(target string, o *http.PushOptions) error  { return w.push(target, o) }
func (w writerHRP) Push(target string, o *http.PushOptions) error  { return w.push(target, o) }
func (w writerFHRP) Push(target string, o *http.PushOptions) error { return w.push(target, o) }

const hasF, hasH, hasR, hasP = 1, 2, 4, 8

// optional returns the optional interfaces of w, as the letters of the types. It has F and H also where
// [http.ResponseController] finds them below w: if the Recorder did not have the method, the
// controller would call the writer below, and the Recorder would not see the call.
func optional(w http.ResponseWriter) (has int) {
	if _, ok := w.(io.ReaderFrom); ok {
		has |= hasR
	}
	if _, ok := w.(http.Pusher); ok {
		has |= hasP
	}
	for {
		switch w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			has |= hasF
		}
		if _, ok := w.(http.Hijacker); ok {
			has |= hasH
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return has
		}
		w = u.Unwrap()
	}
}

// wrappers has, for each combination of letters, the writer with their methods.
var wrappers = [...]func(writer) http.ResponseWriter{ //nolint:gochecknoglobals // a constant
	0:                         func(w writer) http.ResponseWriter { return w },
	hasF:                      func(w writer) http.ResponseWriter { return writerF{w} },
	hasH:                      func(w writer) http.ResponseWriter { return writerH{w} },
	hasF | hasH:               func(w writer) http.ResponseWriter { return writerFH{writerF{w}} },
	hasR:                      func(w writer) http.ResponseWriter { return writerR{w} },
	hasF | hasR:               func(w writer) http.ResponseWriter { return writerFR{writerF{w}} },
	hasH | hasR:               func(w writer) http.ResponseWriter { return writerHR{writerH{w}} },
	hasF | hasH | hasR:        func(w writer) http.ResponseWriter { return writerFHR{writerFH{writerF{w}}} },
	hasP:                      func(w writer) http.ResponseWriter { return writerP{w} },
	hasF | hasP:               func(w writer) http.ResponseWriter { return writerFP{writerF{w}} },
	hasH | hasP:               func(w writer) http.ResponseWriter { return writerHP{writerH{w}} },
	hasF | hasH | hasP:        func(w writer) http.ResponseWriter { return writerFHP{writerFH{writerF{w}}} },
	hasR | hasP:               func(w writer) http.ResponseWriter { return writerRP{writerR{w}} },
	hasF | hasR | hasP:        func(w writer) http.ResponseWriter { return writerFRP{writerFR{writerF{w}}} },
	hasH | hasR | hasP:        func(w writer) http.ResponseWriter { return writerHRP{writerHR{writerH{w}}} },
	hasF | hasH | hasR | hasP: func(w writer) http.ResponseWriter { return writerFHRP{writerFHR{writerFH{writerF{w}}}} },
}

// writer returns rec as the type with the methods of the writer below.
func (rec *Recorder) writer() http.ResponseWriter { return wrappers[optional(rec.w)](writer{rec}) }
