package client

import (
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/gresil/gresil/internal/blame"
)

// A body is the request body of an attempt. It passes on one Close only, though net/http and layers above it may each call Close. It notes
// how it is read; a transport may still read it after RoundTrip has returned.
type body struct {
	io.ReadCloser
	length int64                // the ContentLength of the request; 0 or less if it is unknown
	first  *body                // the first body of the attempt, which can be this one; nil if there can be no other
	newest atomic.Pointer[body] // in first: the body that was last begun to be read

	read                           atomic.Int64
	started, ended, failed, closed atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	if !b.started.Swap(true) && b.first != nil {
		b.first.newest.Store(b)
	}
	n, err := b.ReadCloser.Read(p)
	b.read.Add(int64(n))
	if err != nil && !b.closed.Load() { // otherwise Close has ended the Read
		b.failed.Store(err != io.EOF)
		b.ended.Store(true)
	}
	return n, err
}

func (b *body) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	return b.ReadCloser.Close()
}

// send makes attempt send b. A transport calls GetBody to repeat the request by itself, as net/http does after it has lost a connection. An
// error of GetBody is the caller's fault, like that of a Read.
//
// After a GOAWAY of HTTP/2, net/http calls GetBody twice, and forgets the first of these bodies. So it is closed, if nothing of it was
// read. While b is not closed, it stays open: transports that sign, or that send copies at once, have several bodies too.
func (b *body) send(attempt *http.Request) {
	attempt.Body = b
	getBody := attempt.GetBody
	if getBody == nil {
		return
	}
	b.first = b
	var last atomic.Pointer[body] // of GetBody
	attempt.GetBody = func() (io.ReadCloser, error) {
		again, err := getBody()
		switch {
		case err != nil:
			return again, &blame.Error{Err: err}
		case again == nil:
			return again, nil
		}
		made := &body{ReadCloser: again, length: b.length, first: b}
		if old := last.Swap(made); old != nil && b.closed.Load() && !old.started.Load() {
			_ = old.Close()
		}
		return made, nil
	}
}

// observed returns the body of an attempt that a transport last began to read, or nil if the body does not come from a Replay.
func observed(sent io.ReadCloser) *body {
	b, _ := sent.(*body)
	if b != nil {
		if newest := b.newest.Load(); newest != nil {
			return newest
		}
	}
	return b
}

// fault reports whether a call has failed because of its body: a Read has failed, there were more or fewer bytes than its length, or, if
// limit is true, it was not read to its end. A body that was not read at all is not at fault: there was no connection.
func (b *body) fault(limit bool) bool {
	return b != nil && (b.failed.Load() || limit && b.started.Load() && !b.ended.Load() ||
		b.length > 0 && (b.read.Load() > b.length || b.ended.Load() && b.read.Load() < b.length))
}

// small reports whether b is a body of [http.NewRequest] with so few bytes that net/http sends them together with the header, which it does
// if it recognizes the type. Such a body cannot fail, and is sent at once.
func small(b io.ReadCloser, length int64) bool {
	t := reflect.TypeOf(b)
	if length <= 0 || length > 64<<10 || t != reflect.TypeOf(io.NopCloser(nil)) &&
		t != reflect.TypeOf(io.NopCloser((*strings.Reader)(nil))) {
		return false
	}
	r, ok := reflect.ValueOf(b).Field(0).Interface().(interface { // as those of packages bytes and strings
		io.ByteScanner
		Len() int
	})
	return ok && int64(r.Len()) == length
}
