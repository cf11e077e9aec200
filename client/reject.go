package client

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/internal/header"
	"github.com/gresil/gresil/internal/request"
)

// Reject answers req without a call: it closes the body of req and returns a
// response with the given status and err as its text, or no body to HEAD. The response is
// marked: [Rejected] returns err for it, for outer plugins. Retry-After is the wait of
// err ([core.RetryAfter]), rounded up to at least a second.
//
// A plugin that returns an error instead of a response must close the body with
// [CloseBody].
func Reject(req *http.Request, status int, err error) *http.Response {
	CloseBody(req)
	sent := request.Mark(req, err)
	sent.Body, sent.GetBody = nil, nil
	text := err.Error() + "\n"
	resp := &http.Response{
		Status:        strconv.Itoa(status) + " " + http.StatusText(status),
		StatusCode:    status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
		Body:          &textBody{Reader: *strings.NewReader(text)},
		ContentLength: int64(len(text)),
		Request:       sent,
	}
	if req.Method == http.MethodHead {
		resp.Body = http.NoBody // the length stays: that of the answer to GET
	}
	if wait, ok := core.RetryAfter(err); ok {
		resp.Header.Set("Retry-After", header.RetryAfter(wait))
	}
	return resp
}

// Rejected returns the error that resp was made of by [Reject], or nil when it
// is a real response. The mark is on resp.Request, so wrapping the body, changing
// the header or copying the response does not lose it. A request that is made of
// resp.Request, by Clone or with its context, does not inherit it.
func Rejected(resp *http.Response) error {
	if resp == nil || resp.Request == nil {
		return nil
	}
	return request.Marked(resp.Request)
}

type textBody struct{ strings.Reader }

func (*textBody) Close() error { return nil }
