package breaker

import (
	"io"
	"net/http"
	"sync"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/breaker"
)

// hasBody reports whether resp has a body that ends. The body of an upgraded connection
// is an io.Writer, and can last for any time.
func hasBody(resp *http.Response) bool {
	if resp == nil || resp.Body == nil || resp.Body == http.NoBody || resp.StatusCode == http.StatusSwitchingProtocols {
		return false
	}
	_, upgraded := resp.Body.(io.Writer)
	return !upgraded
}

// A judgedBody is the body of a response whose headers are a success.
type judgedBody struct {
	io.ReadCloser
	once   sync.Once
	permit breaker.Permit
	failed func(error) core.Outcome // of a read
}

func (b *judgedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.ended(err)
	}
	return n, err
}

// Close judges first: a read that Close interrupts has not failed.
func (b *judgedBody) Close() (err error) {
	defer func() { err = b.ReadCloser.Close() }() // whatever a hook does
	b.ended(io.EOF)
	return nil
}

func (b *judgedBody) ended(err error) {
	b.once.Do(func() {
		outcome := core.Ignored // if failed panics
		defer func() { b.permit.Done(outcome) }()
		if err == io.EOF { //nolint:errorlint // as io.Reader has it
			outcome = core.Success
		} else {
			outcome = b.failed(err)
		}
	})
}
