package timeout

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/gresil/gresil/internal/blame"
)

// An outer judges, for a breaker, the errors of an attempt that a limit of the caller ends
// before its own one.
type outer struct {
	started time.Time     // zero if there is nothing to judge: no limit, a nearer one, or the total
	limit   time.Duration // of the attempt
}

// of marks err if the limit of the caller has ended the attempt.
func (o *outer) of(caller context.Context, err error) error {
	return blame.Outer(caller, o.started, o.limit, err)
}

// body makes the errors of the body of resp marked as well.
func (o *outer) body(caller context.Context, resp *http.Response) {
	if o.started.IsZero() || resp == nil || resp.Body == nil || resp.Body == http.NoBody {
		return
	}
	if _, upgraded := resp.Body.(io.Writer); !upgraded {
		resp.Body = &outerBody{ReadCloser: resp.Body, outer: *o, caller: caller}
	}
}

type outerBody struct {
	io.ReadCloser
	outer  outer
	caller context.Context //nolint:containedctx // that of the request
}

func (b *outerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // as io.Reader has it
		err = b.outer.of(b.caller, err)
	}
	return n, err
}
