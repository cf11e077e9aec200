package client

import (
	"io"
	"net/http"
	"sync"

	"github.com/gresil/gresil/internal/request"
)

// OnBodyEnd makes f run once, when the body of resp is closed, read to its end or fails;
// at once if there is no body. The body of an upgraded connection (101) stays an
// [io.Writer], and ends only when it is closed, since the other direction may go on. f
// runs in the goroutine that has just read or closed the body. OnBodyEnd replaces
// resp.Body, so call it before resp is returned.
func OnBodyEnd(resp *http.Response, f func()) {
	if resp == nil || resp.Body == nil || resp.Body == http.NoBody {
		f()
		return
	}
	b := &endingBody{ReadCloser: resp.Body, f: f}
	if w, ok := resp.Body.(io.Writer); ok {
		resp.Body = &request.Conn{Reader: b.ReadCloser, Writer: w, Closer: b}
		return
	}
	resp.Body = b
}

type endingBody struct {
	io.ReadCloser
	once sync.Once
	f    func()
}

func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.once.Do(b.f)
	}
	return n, err
}

func (b *endingBody) Close() error {
	defer b.once.Do(b.f)
	return b.ReadCloser.Close()
}
