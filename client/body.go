package client

import (
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/gresil/gresil/internal/blame"
)

// A body is that of an attempt. It is closed once, though net/http and layers above it may each want to, and notes how it is read,
// which a transport may go on doing after RoundTrip has returned.
type body struct {
	io.ReadCloser
	length int64                // by the request; 0 or less if it is unknown
	first  *body                // of the attempt, which can be this one; nil if there is no other
	newest atomic.Pointer[body] // in first: the one whose first Read was the last

	read                           atomic.Int64
	started, ended, failed, closed atomic.Bool
}

func (b *body) Read(p []byte) (int, error) {
	if !b.started.Swap(true) && b.first != nil {
		b.first.newest.Store(b)
	}
	n, err := b.ReadCloser.Read(p)
	b.read.Add(int64(n))
	if err != nil && !b.closed.Load() { // otherwise the Close has ended the Read
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

// send makes attempt send b. A transport calls GetBody to send it again by itself, as net/http does after it lost a connection. The
// error of GetBody is the caller's fault, like that of a Read.
func (b *body) send(attempt *http.Request) {
	attempt.Body = b
	getBody := attempt.GetBody
	if getBody == nil {
		return
	}
	b.first = b
	attempt.GetBody = func() (io.ReadCloser, error) {
		again, err := getBody()
		switch {
		case err != nil:
			return again, &blame.Error{Err: err}
		case again == nil:
			return again, nil
		}
		return &body{ReadCloser: again, length: b.length, first: b}, nil
	}
}

// observed returns the body that a transport has read last of an attempt, or nil if it is not one of a Replay.
func observed(sent io.ReadCloser) *body {
	b, _ := sent.(*body)
	if b != nil {
		if newest := b.newest.Load(); newest != nil {
			return newest
		}
	}
	return b
}

// fault reports whether a call has failed because of its body: a Read has failed, there was more or less than its length, or a
// limit has struck before it was read to its end. A body that was not read at all is not at fault: there was no connection.
func (b *body) fault(limit bool) bool {
	return b != nil && (b.failed.Load() || limit && b.started.Load() && !b.ended.Load() ||
		b.length > 0 && (b.read.Load() > b.length || b.ended.Load() && b.read.Load() < b.length))
}

// small reports whether b is one that [http.NewRequest] made of so few bytes that net/http sends it together with the header,
// which it does if it sees the type. Such a body cannot fail, and is sent at once.
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
