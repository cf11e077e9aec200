package retry

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/gresil/gresil/client"
	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/retry"
)

// modify calls ModifyRequest, and returns the request to send. The error is an
// [*Error] if the context ends in it.
func (r *run) modify(ctx context.Context, req *http.Request) (*http.Request, error) {
	if r.cfg.ModifyRequest == nil {
		return req, nil
	}
	body, info := req.Body, r.call.Info()
	err := r.cfg.ModifyRequest(req, info.Retry)
	if body != req.Body {
		req = replaced(req, body)
	}
	if err != nil || ctx.Err() == nil {
		return req, err
	}
	last := info.Err
	if r.made && errors.Is(last, core.ErrRejected) {
		last = r.call.Error(last, nil) // an attempt was made
	}
	return req, &Error{Reason: retry.Canceled, Attempts: info.Retry, Cause: context.Cause(ctx), Err: last}
}

// replaced returns req, whose body has replaced another one, if any, that it may read: both are
// closed with it. A Replay closes it once, and observes it for client.Explain.
func replaced(req *http.Request, body io.ReadCloser) *http.Request {
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		if body != nil {
			_ = body.Close() // it is not read
		}
		return req
	case body != nil:
		req.Body = &replacedBody{ReadCloser: req.Body, old: body}
	}
	replay := client.NewReplay(req, -1)
	watched, _ := replay.Attempt(req.Context()) // the first does not fail
	return watched
}

type replacedBody struct {
	io.ReadCloser
	old io.Closer
}

func (b *replacedBody) Close() error {
	err := b.ReadCloser.Close()
	_ = b.old.Close() // it is no longer read
	return err
}
