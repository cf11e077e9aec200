package client

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/gresil/gresil/internal/blame"
)

// guard returns body with a guard around it, unless it needs none: closing it does
// nothing, and reading it cannot fail. Then same is true, and net/http knows a body in
// memory when it sees one.
func (r *Replay) guard(body io.ReadCloser) (guarded io.ReadCloser, same bool) {
	if inMemory(body, r.req.ContentLength) {
		return body, true
	}
	r.current = &onceClose{ReadCloser: body, watch: watch{length: r.req.ContentLength}}
	return r.current, false
}

// onceClose closes a body once, though net/http and layers above it may each
// want to, and watches how it is read.
type onceClose struct {
	io.ReadCloser
	watch  watch
	closed atomic.Bool
}

func (c *onceClose) Read(p []byte) (int, error) {
	c.watch.begin()
	n, err := c.ReadCloser.Read(p)
	c.watch.end(n, err)
	return n, err
}

func (c *onceClose) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.watch.close()
	return c.ReadCloser.Close()
}

// again returns getBody with a guard around each of its bodies. A transport calls it to
// send the request of c again by itself, as net/http does after it lost a connection. The
// error of getBody is the caller's fault, like that of a Read.
func (c *onceClose) again(getBody func() (io.ReadCloser, error)) func() (io.ReadCloser, error) {
	c.watch.attempt = &c.watch
	return func() (io.ReadCloser, error) {
		body, err := getBody()
		switch {
		case err != nil:
			return body, &blame.Error{Err: err}
		case body == nil:
			return body, nil
		}
		return &onceClose{ReadCloser: body, watch: watch{length: c.watch.length, attempt: &c.watch}}, nil
	}
}

// inMemory reports whether body is one that [http.NewRequest] made of bytes or a string
// of that length: it cannot fail, and net/http knows it when it sees it.
func inMemory(body io.ReadCloser, length int64) bool {
	t := reflect.TypeOf(body)
	if t != reflect.TypeOf(io.NopCloser(nil)) && t != reflect.TypeOf(io.NopCloser((*strings.Reader)(nil))) {
		return false
	}
	switch r := reflect.ValueOf(body).Field(0).Interface().(type) {
	case *bytes.Reader:
		return int64(r.Len()) == length
	case *bytes.Buffer:
		return int64(r.Len()) == length
	case *strings.Reader:
		return int64(r.Len()) == length
	}
	return false
}
